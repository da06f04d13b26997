"""A process that was killed between a state and its publication: the next one publishes it, without Spark."""

from pathlib import Path

import msgspec

from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold
from pulsar_barycenter.pipeline.stream.publication import Publisher
from support.data_of_before import copied
from support.publications import decoded


def test_the_newest_state_is_published_if_the_publication_is_older_or_absent(tmp_path: Path) -> None:
    layout, now_ms = copied(tmp_path / "cluster"), 1_800_000_000_000
    fold = BatchFold(layout, clock_ms=lambda: now_ms)
    before = layout.publication.read_bytes()
    fold.publish_kept()
    assert layout.publication.read_bytes() == before, "it is that of the newest state"
    right = decoded(before)
    times = {"published_at": now_ms, "lag_ms": now_ms - right.as_of, "newest_lag_ms": now_ms - right.as_of}
    for content in (None, before.replace(b'"batchId":2', b'"batchId":1'), b"torn"):
        layout.publication.unlink()
        if content is not None:
            layout.publication.write_bytes(content)
        fold.publish_kept()
        assert decoded(layout.publication.read_bytes()) == msgspec.structs.replace(right, **times)
        assert Publisher(layout, None, whole_below=0).newest_batch() == 2


def test_nothing_is_published_of_no_state(tmp_path: Path) -> None:
    layout = copied(tmp_path / "cluster")
    layout.delete("pipeline/state")
    layout.publication.unlink()
    BatchFold(layout, clock_ms=lambda: 0).publish_kept()
    assert Publisher(layout, None, whole_below=0).newest_batch() == -1
