"""What the pipeline publishes, as whole publications and changes, and what readers of all kinds make of it."""

import asyncio
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog.testing

from pulsar_barycenter.broker.load_manager.pipeline_feed import FilePipeline, Published, published
from pulsar_barycenter.load.reports import publication as documents
from pulsar_barycenter.load.reports.publication import (
    BROKER_COLUMNS,
    BUNDLE_COLUMNS,
    MOST_AGE_MS,
    PipelinePublication,
    PublicationChange,
    change_file,
    decode_change,
    encode_publication,
    head_of,
)
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.publication import Changed, Publisher
from support.publications import decoded, drained

NAMES = [f"t/n/{number:03}" for number in range(30)]
BROKERS = ["a:1", "b:1", "c:1"]


class World:
    """What is to be published: bundles and brokers with numbers, changed batch by batch."""

    def __init__(self, seed: int, layout: PipelineLayout) -> None:
        self.rng = random.Random(seed)
        self.batch, self.at_ms = 0, 1_790_000_000_000
        self.bundles: dict[str, int] = {}
        self.brokers: dict[str, int] = {}
        self._layout = layout
        self.publisher = self.restarted()

    def restarted(self) -> Publisher:
        """The pipeline of another process."""
        self.publisher = Publisher(self._layout, None, whole_below=0)
        return self.publisher

    def publish(self, *, seconds: float = 1, most: int = 4) -> None:
        rng = self.rng
        self.batch += rng.choice([1, 1, 3])
        self.at_ms += round(seconds * 1000)
        touched = {name: rng.randrange(1000) for name in rng.sample(NAMES, rng.randrange(most))}
        gone = [name for name in self.bundles if name not in touched and rng.random() < 0.03]
        reported = dict.fromkeys(rng.sample(BROKERS, 1), self.batch)
        left = [name for name in self.brokers if name not in reported and rng.random() < 0.05]
        self.bundles = {name: value for name, value in (self.bundles | touched).items() if name not in gone}
        self.brokers = {name: value for name, value in (self.brokers | reported).items() if name not in left}
        self.publisher.publish(
            len(self.bundles),
            lambda: Changed(self.of(touched, reported), gone, left),
            lambda: self.of(self.bundles, self.brokers),
        )

    def of(self, bundles: dict[str, int], brokers: dict[str, int]) -> PipelinePublication:
        names, values = sorted(bundles), [float(bundles[name]) for name in sorted(bundles)]
        columns: dict[str, Any] = {
            name: list(map(int, values)) if name == "topics" or "num" in name else values for name in BUNDLE_COLUMNS
        }
        columns |= {name: [float(brokers[broker]) for broker in sorted(brokers)] for name in BROKER_COLUMNS}
        return PipelinePublication(
            batch_id=self.batch,
            published_at=self.at_ms,
            as_of=self.at_ms,
            last_sequence={name: ("i", sequence) for name, sequence in brokers.items()},
            bundle=names,
            broker=sorted(brokers),
            **columns,
        )

    @property
    def right(self) -> Published:
        return published(self.of(self.bundles, self.brokers))


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineLayout:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    made = PipelineLayout.of(tmp_path)
    made.create()
    return made


def feed_of(layout: PipelineLayout) -> FilePipeline:
    return FilePipeline(layout.publication.parent)


def read(feed: FilePipeline) -> Published | None:
    asyncio.run(feed.read())
    return feed.latest()


def files(layout: PipelineLayout) -> list[str]:
    return sorted(file.name for file in layout.publication.parent.iterdir())


@pytest.mark.parametrize("seed", range(8))
def test_every_reader_has_the_newest_publication(seed: int, layout: PipelineLayout) -> None:
    """Readers that look after each batch, seldom, or begin then; the pipeline starts anew; the state of before is
    restored, so that batches have ids of before; a batch runs again."""
    world = World(seed, layout)
    readers = {0.9: feed_of(layout), 0.2: feed_of(layout), 0.02: feed_of(layout)}
    for _ in range(100):
        if world.rng.random() < 0.03:
            world.restarted()
        if world.rng.random() < 0.02:
            world.batch = max(0, world.batch - 5)
            world.restarted()
        if world.rng.random() < 0.02:
            world.batch -= 1
        world.publish(seconds=world.rng.choice([0.001, 1, 9]), most=world.rng.choice([1, 4, 12]))
        for chance, reader in readers.items():
            if world.rng.random() < chance:
                assert read(reader) == world.right
                assert read(reader) is reader.latest()
        if world.rng.random() < 0.1:
            assert read(feed_of(layout)) == world.right
        assert world.publisher.newest_batch() == world.batch
        assert len(files(layout)) <= 2 * (len(NAMES) + MOST_AGE_MS)
    assert all(read(reader) == world.right for reader in readers.values())


def test_a_reader_that_keeps_up_never_reads_the_whole_again(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is written again and again; a change costs what it changed."""
    world, reader = World(1, layout), feed_of(layout)
    for _ in range(5):
        world.publish(most=12)
    read(reader)

    def refuse(document: bytes) -> Any:
        raise AssertionError("the whole publication is read")

    monkeypatch.setattr("pulsar_barycenter.broker.load_manager.pipeline_feed.decode_publication", refuse)
    wholes = set()
    for _ in range(60):
        world.publish(seconds=2)
        assert read(reader) == world.right
        wholes.add(decoded(layout.publication.read_bytes()).batch_id)
    assert len(wholes) > 3


def test_a_reader_of_the_whole_alone_is_late_by_a_bound(layout: PipelineLayout) -> None:
    """A broker of an earlier release: it reads `latest.json`, which no change makes older than that."""
    world = World(2, layout)
    for _ in range(200):
        world.publish(seconds=world.rng.choice([0.5, 7, 29]), most=2)
        whole = decoded(layout.publication.read_bytes())
        assert world.at_ms - whole.published_at < MOST_AGE_MS


def test_what_changes_take_is_bounded(layout: PipelineLayout) -> None:
    """Two times the whole, and a few files; those of before go."""
    world = World(3, layout)
    for _ in range(300):
        world.publish(seconds=0.01)
        found = [decode(file.read_bytes()) for file in layout.publication.parent.glob("*.after-*")]
        assert sum(change.rows for change in found) <= 2 * (len(NAMES) + 4)


def test_of_few_bundles_the_whole_is_written_each_time(layout: PipelineLayout) -> None:
    """And changes that an earlier process left are deleted."""
    world = World(4, layout)
    for _ in range(9):
        world.publish()
    assert len(files(layout)) > 1
    world.publisher = Publisher(layout, None, whole_below=10_000)
    for _ in range(3):
        world.publish()
        assert files(layout) == ["latest.json"]
        assert decoded(layout.publication.read_bytes()) == world.of(world.bundles, world.brokers)


def test_a_damaged_or_left_over_change_ends_the_way_until_the_next_whole(layout: PipelineLayout) -> None:
    """It is logged once, and what was read before stays."""
    world, reader = World(5, layout), feed_of(layout)
    for _ in range(6):
        world.publish()
    before = read(reader)
    assert before is not None
    name = change_file("latest.json", before.id)
    world.publish()
    file = layout.publication.with_name(name)
    whole = file.read_bytes()
    other = decode(whole)
    left_over = encode_publication(msgspec.structs.replace(other, after=other.after._replace(published_at=1)))
    number = before.id.batch_id
    backwards = msgspec.structs.replace(
        other, batch_id=number, changed=msgspec.structs.replace(other.changed, batch_id=number)
    )
    for content in (whole[:-9], left_over, encode_publication(backwards)):
        file.write_bytes(content)
        with structlog.testing.capture_logs() as logs:
            assert [read(reader), read(reader)] == [before, before]
        assert len(logs) == (content == whole[:-9])
    while decoded(layout.publication.read_bytes()).batch_id < other.batch_id:
        world.publish(seconds=20)
    assert read(reader) == world.right


BAD = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'"\xff"',
    b"[" * 100_000,
    b'{"x":' + b"[" * 100_000,
    b"{}",
    b'{"changed":{}}',
    b'{"changed":1}',
]


def bad_changes() -> Iterable[bytes]:
    right = '{"batchId":5,"publishedAt":9,"after":[4,8],"isWhole":false,"changed":%s}'
    rows = {"batchId": 5, "publishedAt": 9, "asOf": 1}
    yield from BAD
    for name, text in (
        ("topics", "[1e999]"), ("topics", "[NaN]"), ("topics", "[1.5]"), ("bundle", "[1]"), ("bundle", '["a"]'),
        ("shortMsgRateIn", "[1e999]"), ("shortMsgRateIn", "[Infinity]"), ("shortMsgRateIn", "[null]"),
        ("lastSequence", "[]"), ("lastSequence", '{"b":["i"]}'), ("asOf", '"1"'), ("batchId", "6"),
    ):  # fmt: skip
        fields = {key: str(value) for key, value in rows.items()} | {name: text}
        document = "{" + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}"
        yield (right % document).encode()
    good = right % msgspec.json.encode(rows).decode()
    for before, after in (
        ("[4,8]", "[4]"), ("[4,8]", "4"), ("[4,8]", '["4",8]'), ("[4,8]", "[1e999,8]"), ("false", "0"),
        ('"isWhole":false', '"bundlesGone":"x","isWhole":false'),
        ('"isWhole":false', '"brokersGone":[1],"isWhole":false'),
        ('"isWhole":false,', ""), ('"after":[4,8],', ""),
    ):  # fmt: skip
        yield good.replace(before, after).encode()


def decode(document: bytes) -> PublicationChange:
    return drained(decode_change(document))


def test_bad_documents_are_refused_by_an_error(layout: PipelineLayout) -> None:
    """Numbers that are none, other types, brackets without end: the reader goes on with what it has."""
    rows = {"batchId": 5, "publishedAt": 9, "asOf": 1}
    document = {"batchId": 5, "publishedAt": 9, "after": [4, 8], "isWhole": False, "changed": rows, "later": 1}
    assert decode(msgspec.json.encode(document)).after == (4, 8)
    for bad in bad_changes():
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            decode(bad)
    reader = feed_of(layout)
    start = PipelinePublication(batch_id=4, published_at=8, as_of=1)
    layout.publication.write_bytes(encode_publication(start))
    first = read(reader)
    assert first == published(start)
    for bad in (*bad_changes(), *BAD):
        layout.publication.with_name(change_file("latest.json", first.id)).write_bytes(bad)
        layout.publication.write_bytes(bad)
        assert read(reader) is first


def test_what_is_too_large_is_not_read(layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    world, reader = World(6, layout), feed_of(layout)
    world.publish(most=12)
    monkeypatch.setattr("pulsar_barycenter.broker.load_manager.pipeline_feed.LARGEST_BYTES", 100)
    with structlog.testing.capture_logs() as logs:
        assert read(reader) is None
    assert "at most 100 are allowed" in logs[0]["reason"]


def test_a_document_is_known_by_its_first_bytes() -> None:
    """Whatever numbers it has; that of an earlier release, too, and no other document is."""
    for batch_id, at in ((0, 0), (10**17, 10**17)):
        whole = PipelinePublication(batch_id=batch_id, published_at=at, as_of=1)
        change = PublicationChange(batch_id=batch_id, published_at=at, after=whole.id, is_whole=True, changed=whole)
        assert head_of(encode_publication(whole)[: documents.HEAD_BYTES]) == ((batch_id, at), None)
        assert head_of(encode_publication(change)[: documents.HEAD_BYTES]) == ((batch_id, at), (batch_id, at))
    for other in (b"", b"{}", b'{"publishedAt":1,"batchId":2,', b'{"batchId":-1,"publishedAt":1,'):
        assert head_of(other) is None
