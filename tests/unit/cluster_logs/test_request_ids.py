"""What carries the id of a request, and what no longer does."""

import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from pulsar_barycenter.cluster_logs.request_ids import (
    MAX_REQUEST_ID_CHARACTERS,
    current_request_id,
    is_request_id,
    kept_task,
    merge_request,
    new_connection_id,
    new_request_id,
    request_headers,
    serving,
)

log = structlog.get_logger(__name__)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("a", True),
        ("Ticket-4711:a_b.c", True),
        ("x" * MAX_REQUEST_ID_CHARACTERS, True),
        ("x" * (MAX_REQUEST_ID_CHARACTERS + 1), False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
        ("a/b", False),
        ("\N{ARABIC-INDIC DIGIT ONE}", False),
    ],
)
def test_ids_are_short_words_of_few_characters(text: str, is_one: bool) -> None:
    assert is_request_id(text) is is_one


def test_ids_made_here_are_ids() -> None:
    assert is_request_id(new_request_id())
    assert is_request_id(f"{new_connection_id()}-{2**64 - 1}")


async def test_a_loop_that_a_request_started_bears_its_id_no_longer_than_it() -> None:
    go_on = asyncio.Event()
    seen = []

    async def loop() -> None:
        seen.append(current_request_id())
        await go_on.wait()
        log.info("looped")
        seen.append(current_request_id())

    with capture_logs(processors=[merge_request]) as logged:
        with serving("r1", connection="c1"):
            task = asyncio.create_task(loop())
            await asyncio.sleep(0)
            log.info("asked")
        assert (current_request_id(), request_headers()) == ("", {})
        with serving("r2"):  # the loop serves whom it serves: it does not bear the next one's either
            go_on.set()
            await task
    assert seen == ["r1", ""]
    assert [(each["event"], each.get("request_id"), each.get("connection")) for each in logged] == [
        ("asked", "r1", "c1"),
        ("looped", None, None),
    ]


async def test_work_for_a_request_that_outlives_it_bears_its_id_and_what_it_starts_does_not() -> None:
    go_on, over = asyncio.Event(), asyncio.Event()
    seen = []

    async def left_behind() -> None:
        await over.wait()
        seen.append(current_request_id())

    async def work() -> "asyncio.Task[None]":
        await go_on.wait()
        seen.append(current_request_id())
        return asyncio.create_task(left_behind())

    with serving("r1"):
        task = kept_task(work(), "kept")
    go_on.set()
    left = await task
    await asyncio.sleep(0)
    over.set()
    await left
    assert seen == ["r1", ""]
    assert await kept_task(asyncio.sleep(0, current_request_id()), "nobody's") == ""


def test_what_an_event_says_itself_counts() -> None:
    with capture_logs(processors=[merge_request]) as logged, serving("r1"):
        log.info("taken", request_id="r2")
    assert [each["request_id"] for each in logged] == ["r2"]
