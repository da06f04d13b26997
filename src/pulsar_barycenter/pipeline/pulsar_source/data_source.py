"""`format("pulsar")`: Pulsar topics as a table and as a stream, over the Pulsar client.

    from pulsar_barycenter.pipeline.pulsar_source import PulsarDataSource

    spark.dataSource.register(PulsarDataSource)
    messages = spark.read.format("pulsar").option("service.url", url).option("topic", "orders").load()

A batch query reads up to the message that was the last one when it was planned. The offset of a stream has, for each
topic or partition, the position of the last message read. A micro-batch reads the messages between two offsets. So a
query continues from its checkpoint with the next message, and a batch that runs again reads the same messages. One
Spark partition reads one topic or partition. Works with any Pulsar cluster; docs/pulsar-source.md has the options.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.pulsar_source.options import (
    Earliest,
    Latest,
    OptionError,
    Place,
    Places,
    Since,
    SourceOptions,
    parse_options,
)
from pulsar_barycenter.pipeline.pulsar_source.positions import (
    EARLIEST,
    Position,
    Positions,
    positions_from_json,
    positions_to_json,
)
from pulsar_barycenter.pipeline.pulsar_source.rows import MESSAGES, message_batches
from pulsar_barycenter.pipeline.pulsar_source.topics import Bookmark, MessageCounter, Tail, Topics

_PLANNING_THREADS: Final = 16


class MessageRange(InputPartition):
    """The messages of one topic, or of one partition, from after the position `start` (exclusive) to the position `end`
    (inclusive).
    """

    def __init__(self, topic: str, start: Position, end: Position) -> None:
        super().__init__(topic)
        self.topic = topic
        self.start = start
        self.end = end


class PulsarDataSource(DataSource):
    """The Spark data source `pulsar`, which reads messages. Invalid options raise OptionError before a connection is
    opened.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def schema(self) -> T.StructType:
        return MESSAGES

    def reader(self, schema: T.StructType) -> DataSourceReader:
        if self._options.subscription is not None:
            raise OptionError(
                "subscription", "only a stream can have a subscription; leave this option out in a batch query"
            )
        return PulsarReader(_checked(schema, self._options))

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return PulsarStreamReader(_checked(schema, self._options))


class PulsarReader(DataSourceReader):
    """Reads topics in a batch query, from `startingOffsets` (default: earliest) to `endingOffsets` (default: latest).
    Which messages the query reads is fixed when Spark plans it: messages that are published later are not read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return one range of messages for each topic or partition that has messages to read."""
        starting, ending = self._options.starting or Places(Earliest()), self._options.ending
        topics = Topics(self._options)
        try:
            names = topics.names()
            with ThreadPoolExecutor(_PLANNING_THREADS) as pool:
                starts = list(pool.map(lambda name: _start(topics, name, starting.of(name)), names))
                ends = list(pool.map(lambda name, start: _end(topics, name, ending.of(name), start), names, starts))
        finally:
            topics.close()
        return _ranges(dict(zip(names, starts, strict=True)), dict(zip(names, ends, strict=True)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one range, as record batches."""
        return _batches(self._options, partition)


class PulsarStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics in a streaming query, from `startingOffsets` (default: latest) on. Topics that appear after the
    start of the query are read from their first message.

    With `maxMessagesPerTrigger`, each message is read twice: first to count it when a batch is planned, then for the
    batch. With `subscription`, each topic has a durable subscription, which acknowledges messages only after Spark has
    committed their batch; so the topics keep unread messages.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._topics: Topics | None = None
        self._tails: dict[str, Tail] = {}
        self._counters: dict[str, MessageCounter] = {}
        self._bookmarks: dict[str, Bookmark] = {}
        self._target: Positions | None = None
        self._ends: Positions | None = None
        self._turn = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the positions at which a query without a checkpoint begins."""
        starting = self._options.starting or Places(Latest())
        topics = self._connected()
        return positions_to_json({name: _start(topics, name, starting.of(name)) for name in self._names()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        count = self._options.max_messages_per_trigger
        return ReadAllAvailable() if count is None else ReadMaxRows(count)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the position of the last message of each topic. A query with the trigger "available now" calls this
        once, at its start, and ends when it has read these messages.
        """
        self._target = self._last({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next batch, which begins at `start`: for each topic the position of its last message.
        For a query with the trigger "available now", it is the last message at the start of the query. If `limit`
        allows fewer messages, the positions are earlier.
        """
        known = positions_from_json(start)
        if self._target is None:
            ends = self._last(known)
        else:
            ends = {name: max(end, known.get(name, EARLIEST)) for name, end in self._target.items()}
        self._ends = known | ends
        if isinstance(limit, ReadMaxRows):
            ends = self._within(known, ends, limit.max_rows)
        return positions_to_json(known | ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return None if self._ends is None else positions_to_json(self._ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one range of messages for each topic or partition that has messages after `start` (exclusive) up to
        `end` (inclusive).
        """
        return _ranges(positions_from_json(start), positions_from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one range, as record batches."""
        return _batches(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge the messages up to `end` in the subscriptions, if the option `subscription` is set."""
        for name, position in positions_from_json(end).items():
            if name in self._bookmarks:
                self._bookmarks[name].move(position)

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _connected(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self._options)
        return self._topics

    def _names(self) -> list[str]:
        """Return the full names of all topics and partitions to read. If the option `subscription` is set, first
        subscribe to those that are new, so that the topics keep their unread messages.
        """
        topics = self._connected()
        names = topics.names()
        if self._options.subscription is not None:
            for name in names:
                if name not in self._bookmarks:
                    self._bookmarks[name] = topics.bookmark(name, self._options.subscription)
        return names

    def _last(self, known: Positions) -> Positions:
        """Return for each topic the position of its last message, or its position in `known` if that is later."""
        topics = self._connected()
        names = self._names()
        for name in names:
            self._tails.setdefault(name, topics.tail(name))
        with ThreadPoolExecutor(_PLANNING_THREADS) as pool:
            ends = pool.map(lambda name: self._tails[name].last(known.get(name, EARLIEST)), names)
            return dict(zip(names, ends, strict=True))

    def _within(self, known: Positions, ends: Positions, limit: int) -> Positions:
        """Return for each topic the end of a batch that begins at `known` and has at most `limit` messages. No end is
        after the one in `ends`.

        The topics with unread messages get equal shares of `limit`; what a topic does not need goes to the topics after
        it. With each call another topic is the first.
        """
        waiting = sorted(name for name, end in ends.items() if known.get(name, EARLIEST) < end)
        self._turn += 1
        first = self._turn % max(1, len(waiting))  # take turns: there may be more topics than messages in `limit`
        reached = dict(known)
        for at, name in enumerate(waiting[first:] + waiting[:first]):
            share = -(-limit // (len(waiting) - at))
            start = known.get(name, EARLIEST)
            counter = self._counter(name, start)
            limit -= counter.advance(share, ends[name])
            reached[name] = min(counter.position, ends[name])
        return reached

    def _counter(self, name: str, start: Position) -> MessageCounter:
        counter = self._counters.pop(name, None)
        if counter is not None and counter.position != start:
            counter.close()
            counter = None
        self._counters[name] = counter or MessageCounter(self._connected(), name, start)
        return self._counters[name]


def _checked(schema: T.StructType, options: SourceOptions) -> SourceOptions:
    if schema.names != MESSAGES.names:
        raise OptionError(
            "schema", f"the columns of messages are fixed: {', '.join(MESSAGES.names)}; leave .schema(…) out"
        )
    return options


def _start(topics: Topics, name: str, place: Place) -> Position:
    match place:
        case Earliest():
            return EARLIEST
        case Latest():
            return topics.last(name)
        case Since(time_ms):
            return topics.before(name, time_ms)
        case Position():
            return place


def _end(topics: Topics, name: str, place: Place, start: Position) -> Position:
    last = topics.last(name, start)
    return min(place, last) if isinstance(place, Position) else last


def _ranges(starts: Mapping[str, Position], ends: Mapping[str, Position]) -> list[InputPartition]:
    ranges = ((name, starts.get(name, EARLIEST), end) for name, end in sorted(ends.items()))
    return [MessageRange(name, start, end) for name, start, end in ranges if start < end]


def _batches(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, MessageRange):  # Spark's own partition, if a query has nothing to read
        return
    topics = Topics(options)
    try:
        number = TopicName.parse(partition.topic).partition_index
        messages = topics.messages(partition.topic, partition.start, partition.end)
        yield from message_batches(messages, partition.topic, number)
    finally:
        topics.close()
