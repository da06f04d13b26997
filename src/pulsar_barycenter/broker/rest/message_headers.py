"""Makes the HTTP headers of an answer with a stored message. They contain the message's metadata, under Pulsar's names.

Source: `generateResponseWithEntry` of Pulsar's `PersistentTopicsBase`. Difference: characters that a header cannot have
are percent-encoded in names and values.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from pulsar_barycenter.broker.topics.stats import timestamp
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_PREFIX: Final = "X-Pulsar-"
_NO_TOKEN: Final = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

_TIMES: Final = {
    "publish_time": "publish-time",
    "event_time": "event-time",
    "deliver_at_time": "deliver-at-time",
}
_VALUES: Final = {
    "null_value": "null-value",
    "producer_name": "producer-name",
    "sequence_id": "sequence-id",
    "replicated_from": "replicated-from",
    "partition_key": "partition-key",
    "uncompressed_size": "uncompressed-size",
    "encryption_algo": "encryption-algo",
    "partition_key_b64_encoded": "partition-key-b64-encoded",
    "marker_type": "marker-type",
    "txnid_least_bits": "txnid-least-bits",
    "txnid_most_bits": "txnid-most-bits",
    "highest_sequence_id": "highest-sequence-id",
    "uuid": "uuid",
    "num_chunks_from_msg": "num-chunks-from-msg",
    "total_chunk_msg_size": "total-chunk-msg-size",
    "chunk_id": "chunk-id",
    "null_partition_key": "null-partition-key",
}
_BYTES: Final = {
    "encryption_param": "Base64-encryption-param",
    "schema_version": "Base64-schema-version",
    "ordering_key": "Base64-ordering-key",
}


def message_headers(position: Position, metadata: api.MessageMetadata, batch_size: int) -> Iterator[tuple[str, str]]:
    """Yield the HTTP headers, as name and value, that describe the message at `position`. `batch_size` is the size in
    bytes of the entry without its metadata; it is used only if the entry is a batch.
    """
    yield f"{_PREFIX}Message-ID", str(position)
    for pair in metadata.properties:
        yield f"{_PREFIX}PROPERTY-{_NO_TOKEN.sub(_encoded, pair.key)}", _value(pair.value)
    for field, name in _TIMES.items():
        if metadata.HasField(field):  # type: ignore[arg-type]
            yield f"{_PREFIX}{name}", timestamp(getattr(metadata, field))
    if metadata.HasField("num_messages_in_batch"):
        yield f"{_PREFIX}num-batch-message", str(metadata.num_messages_in_batch)
        yield f"{_PREFIX}batch-size", str(batch_size)
    if metadata.HasField("num_chunks_from_msg"):
        yield f"{_PREFIX}PROPERTY-TOTAL-CHUNKS", str(metadata.num_chunks_from_msg)
        yield f"{_PREFIX}PROPERTY-CHUNK-ID", str(metadata.chunk_id)
    yield f"{_PREFIX}Is-Encrypted", _value(bool(metadata.encryption_keys))
    for field, name in _VALUES.items():
        if metadata.HasField(field):  # type: ignore[arg-type]
            yield f"{_PREFIX}{name}", _value(getattr(metadata, field))
    for cluster in metadata.replicate_to:
        yield f"{_PREFIX}replicated-to", _value(cluster)
    if metadata.HasField("compression"):
        yield f"{_PREFIX}compression", api.CompressionType.Name(metadata.compression)
    for keys in metadata.encryption_keys:
        yield f"{_PREFIX}Base64-encryption-keys", b64encode(keys.SerializeToString()).decode()
    for field, name in _BYTES.items():
        if metadata.HasField(field):  # type: ignore[arg-type]
            yield f"{_PREFIX}{name}", b64encode(getattr(metadata, field)).decode()


def _value(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _NO_VALUE.sub(_encoded, text)


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
