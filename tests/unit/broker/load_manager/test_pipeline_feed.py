"""The pipeline's publication as the leader reads it."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from pulsar_barycenter.broker.load_manager.pipeline_feed import (
    FilePipeline,
    Published,
    includes,
    is_exactly,
    published,
    published_averages,
    published_bundles,
)
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.publication import BUNDLE_COLUMNS, PipelinePublication, encode_publication


def publication(batch_id: int = 1) -> PipelinePublication:
    columns = {
        f"{window}_{figure}": [index + 1.0, index + 2.0]
        for index, (window, figure) in enumerate(
            (window, figure)
            for window in ("short", "long")
            for figure in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
        )
    }
    averages = {
        f"{window}_term_{figure}": [float(index)]
        for index, (window, figure) in enumerate(
            (window, figure)
            for window in ("short", "long")
            for figure in ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
        )
    }
    return PipelinePublication(
        batch_id=batch_id,
        published_at=5,
        as_of=4,
        last_sequence={"b": ("i", 7)},
        bundle=["t/n/x", "t/n/y"],
        topics=[3, 4],
        short_num_samples=[10, 2],
        long_num_samples=[12, 2],
        broker=["b"],
        **columns,
        **averages,
    )


def test_published_columns_become_windows_and_averages() -> None:
    bundles, averages = published_bundles(publication()), published_averages(publication())
    short, long = bundles["t/n/y"].short_term_data, bundles["t/n/y"].long_term_data
    assert (short.max_samples, short.num_samples, short.msg_rate_in, short.msg_throughput_out) == (10, 2, 2, 5)
    assert (long.max_samples, long.num_samples, long.msg_rate_in, long.msg_throughput_out) == (1000, 2, 6, 9)
    assert bundles["t/n/x"].topics == 3
    assert (averages["b"].short_term_msg_throughput_in, averages["b"].short_term_msg_rate_out) == (0, 3)
    assert (averages["b"].long_term_msg_throughput_in, averages["b"].long_term_msg_rate_out) == (4, 7)


@pytest.mark.parametrize(
    ("broker", "incarnation", "sequence", "included", "exactly"),
    [("b", "i", 7, True, True), ("b", "i", 6, True, False), ("b", "i", 8, False, False), ("b", "j", 1, False, False),
     ("c", "i", 1, False, False)],
)  # fmt: skip
def test_a_report_is_included_up_to_the_published_sequence(
    broker: str, incarnation: str, sequence: int, included: bool, exactly: bool
) -> None:
    seen, known = LocalBrokerData(incarnation=incarnation, sequence=sequence), published(publication())
    assert (includes(known, broker, seen), is_exactly(known, broker, seen)) == (included, exactly)


def replace(folder: Path, document: bytes) -> None:
    hidden = folder / ".new"
    hidden.write_bytes(document)
    hidden.replace(folder / "latest.json")


async def test_a_publication_is_read_when_it_changes_and_kept_when_it_is_unreadable(tmp_path: Path) -> None:
    feed = FilePipeline(tmp_path)

    async def newest() -> Published | None:
        await feed.read()
        return feed.latest()

    assert await newest() is None
    replace(tmp_path, encode_publication(publication(1)))
    assert feed.latest() is None, "nothing is read but by order"
    first = await newest()
    assert first == published(publication(1))
    assert await newest() is first
    replace(tmp_path, b'{"batchId": ')
    assert await newest() is first
    replace(tmp_path, encode_publication(publication(22)))
    assert await newest() == published(publication(22))
    (tmp_path / "latest.json").unlink()
    assert await newest() == published(publication(22))


async def test_an_error_of_the_disk_does_not_hide_a_publication_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = FilePipeline(tmp_path)
    replace(tmp_path, encode_publication(publication(1)))
    await feed.read()
    replace(tmp_path, encode_publication(publication(2)))
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", fail_to_open)
        await feed.read()
    assert feed.latest() == published(publication(1))
    await feed.read()
    assert feed.latest() == published(publication(2))


def fail_to_open(*_: object) -> None:
    raise OSError(errno.EIO, "the disk does not answer")


async def test_what_is_no_publication_is_passed_by(tmp_path: Path) -> None:
    feed = FilePipeline(tmp_path)
    os.mkfifo(tmp_path / "latest.json")
    await feed.read()
    (tmp_path / "latest.json").unlink()
    replace(tmp_path, b'{"unknown":' + b"[" * 100_000)
    await feed.read()
    assert feed.latest() is None


async def test_others_go_on_while_a_publication_is_read_and_who_asks_meanwhile_waits_for_it(tmp_path: Path) -> None:
    feed, turns = FilePipeline(tmp_path), 0
    replace(tmp_path, encode_publication(publication(1)))
    both = asyncio.gather(feed.read(), feed.read())
    while not both.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= len(BUNDLE_COLUMNS)
    replace(tmp_path, encode_publication(publication(2)))
    first = asyncio.create_task(feed.read())
    await asyncio.sleep(0)
    await feed.read()
    assert feed.latest() == published(publication(2))
    await first


async def test_when_the_pipeline_last_looked_is_read_off_the_file_beside_the_publication(tmp_path: Path) -> None:
    feed = FilePipeline(tmp_path)
    await feed.read()
    assert feed.last_look_ms() is None
    for at_s in (1_790_000_000, 1_790_000_005):
        (tmp_path / "looked").touch()
        os.utime(tmp_path / "looked", (at_s, at_s))
        await feed.read()
        assert feed.last_look_ms() == 1000 * at_s
    (tmp_path / "looked").unlink()
    await feed.read()
    assert feed.last_look_ms() is None, "the pipeline was given up"
