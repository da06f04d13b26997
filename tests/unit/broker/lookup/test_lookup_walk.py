"""A look-up whose answer is known is one path through few files, from the parsed command to the answer.

`docs/architecture.md` describes the same walk for readers.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pulsar_barycenter
from support.rest_cluster import rest_cluster
from support.wire_lookup import lookup_over_wire

BROKER = str(Path(pulsar_barycenter.__file__).parent / "broker") + "/"
HANDLER = "wire/lookup_requests.py"
CONNECTION = "wire/connection.py"
WALK_TO_THIS_BROKER = [
    HANDLER,
    "lookup/service.py",
    "namespaces/bundle_cache.py",
    "lookup/service.py",
    "ownership/by_locks/lock_ownership.py",
    "ownership/holdings.py",
    "ownership/term.py",
    "ownership/holdings.py",
    "ownership/by_locks/lock_ownership.py",
    "lookup/service.py",
    HANDLER,
]
MOST_STAYS = 12


def file_of(frame: FrameType | None) -> str:
    """Return the file below `broker` that has the code of `frame`; "" for other code, and for lambdas: they adapt."""
    if frame is None or frame.f_code.co_name == "<lambda>" or not frame.f_code.co_filename.startswith(BROKER):
        return ""
    return frame.f_code.co_filename.removeprefix(BROKER)


@contextmanager
def walked() -> Iterator[list[str]]:
    """Yield a list to which each call of the handler of LOOKUP adds the files that it passes; a file is added again at
    each return to it. The connection, to which all handlers belong, is left out.
    """
    stays: list[str] = []
    in_handler = False

    def record(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal in_handler
        name = file_of(frame)
        is_handler = name == HANDLER and frame.f_code.co_name == "lookup"
        in_handler = in_handler or (is_handler and event == "call")
        if event == "return":
            in_handler = in_handler and not is_handler
            name = file_of(frame.f_back)
        if in_handler and event in ("call", "return") and name not in ("", CONNECTION) and stays[-1:] != [name]:
            stays.append(name)

    former = sys.getprofile()
    sys.setprofile(record)
    try:
        yield stays
    finally:
        sys.setprofile(former)


async def test_a_look_up_of_a_topic_that_is_served_here_is_one_short_path() -> None:
    topic = "persistent://public/default/walked"
    async with rest_cluster() as cluster:
        url = str(cluster.brokers[0].urls.broker_url)
        assert await lookup_over_wire(url, topic) == url, "the first look-up assigns the bundle"
        with walked() as stays:
            assert await lookup_over_wire(url, topic) == url
    assert stays == WALK_TO_THIS_BROKER
    assert len(stays) <= MOST_STAYS
