"""The schema of messages in Spark, and the conversion of messages to Arrow record batches of this schema."""

from collections.abc import Iterable, Iterator
from typing import Final

import pulsar
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by
from pyspark.sql.pandas.types import to_arrow_schema

MESSAGE_ID: Final = T.StructType(
    [
        T.StructField("ledger", T.LongType(), False),
        T.StructField("entry", T.LongType(), False),
        T.StructField("partition", T.IntegerType(), False),
        T.StructField("batch_index", T.IntegerType(), False),
    ]
)
"""The schema of the id of a message. Ids of one topic or partition are ordered like its messages. `partition` is -1 if
the topic has no partitions, `batch_index` is -1 if the message is not in a batch.
"""

MESSAGES: Final = T.StructType(
    [
        T.StructField("key", T.StringType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("properties", T.MapType(T.StringType(), T.StringType(), False), False),
        T.StructField("event_time", T.TimestampType()),
        T.StructField("publish_time", T.TimestampType(), False),
        T.StructField("topic", T.StringType(), False),
        T.StructField("message_id", MESSAGE_ID, False),
        T.StructField("producer_name", T.StringType(), False),
    ]
)
"""One message per row. `key`, `value` and `event_time` are null if the producer did not set them."""

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 8 << 20

_ARROW: Final = to_arrow_schema(MESSAGES, timezone="UTC")
_ARROW_ID: Final = to_arrow_schema(MESSAGE_ID)
_EPOCH_MS: Final = pa.timestamp("ms", tz="UTC")


def message_batches(messages: Iterable[pulsar.Message], topic: str, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one topic in their order, as record batches of at most `BATCH_ROWS` rows. `partition` is
    the index of the partition, which is part of each message id.

    A batch ends earlier when the total size of its values is at least `BATCH_BYTES`.
    """
    batch = _Batch(topic, partition)
    for message in messages:
        batch.add(message)
        if len(batch.values) >= BATCH_ROWS or batch.bytes >= BATCH_BYTES:
            yield batch.made()
            batch = _Batch(topic, partition)
    if batch.values:
        yield batch.made()


class _Batch:
    """The messages of one record batch before it is created, as one list for each column. The caller adds one message
    after the other.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self.bytes = 0
        self.values: list[bytes | None] = []
        self._keys: list[str | None] = []
        self._properties: list[list[tuple[str, str]]] = []
        self._event_ms: list[int | None] = []
        self._publish_ms: list[int] = []
        self._ledgers: list[int] = []
        self._entries: list[int] = []
        self._indexes: list[int] = []
        self._producers: list[str] = []

    def add(self, message: pulsar.Message) -> None:
        message_id = message.message_id()
        value = None if message.has_null_value() else message.data()
        self.bytes += len(value or b"")
        self.values.append(value)
        self._keys.append(message.partition_key() or None)
        self._properties.append(list(message.properties().items()))
        self._event_ms.append(message.event_timestamp() or None)
        self._publish_ms.append(message.publish_timestamp())
        self._ledgers.append(message_id.ledger_id())
        self._entries.append(message_id.entry_id())
        self._indexes.append(message_id.batch_index())
        self._producers.append(message.producer_name())

    def made(self) -> pa.RecordBatch:
        """Return the collected messages as a record batch."""
        rows = len(self.values)
        ids = (self._ledgers, self._entries, [self._partition] * rows, self._indexes)
        columns = {
            "key": self._keys,
            "value": self.values,
            "properties": self._properties,
            "event_time": pa.array(self._event_ms, _EPOCH_MS),
            "publish_time": pa.array(self._publish_ms, _EPOCH_MS),
            "topic": [self._topic] * rows,
            "message_id": pa.StructArray.from_arrays(
                [pa.array(column, field.type) for column, field in zip(ids, _ARROW_ID, strict=True)],
                fields=list(_ARROW_ID),
            ),
            "producer_name": self._producers,
        }
        return pa.RecordBatch.from_arrays(
            [_typed(columns[field.name], field.type) for field in _ARROW],
            schema=_ARROW,
        )


def _typed(column: list[object] | pa.Array, kind: pa.DataType) -> pa.Array:
    return column.cast(kind) if isinstance(column, pa.Array) else pa.array(column, kind)
