"""Messages as Arrow batches: each message once, in order, and no batch far beyond its bounds."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.pulsar_source import rows as pulsar_rows
from pulsar_barycenter.pipeline.pulsar_source.rows import message_batches


class Message:
    """A message as the client gives it; its id is (1, `entry`, -1)."""

    def __init__(self, entry: int, value: bytes | None, **given: Any) -> None:
        self._entry = entry
        self._value = value
        self._given = {"key": "", "properties": {}, "event_ms": 0} | given

    def message_id(self) -> "Message":
        return self

    def ledger_id(self) -> int:
        return 1

    def entry_id(self) -> int:
        return self._entry

    def batch_index(self) -> int:
        return -1

    def has_null_value(self) -> bool:
        return self._value is None

    def data(self) -> bytes:
        return self._value or b""

    def partition_key(self) -> Any:
        return self._given["key"]

    def properties(self) -> Any:
        return self._given["properties"]

    def event_timestamp(self) -> Any:
        return self._given["event_ms"]

    def publish_timestamp(self) -> int:
        return 1_700_000_000_123

    def producer_name(self) -> str:
        return "shop"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 40), max_size=30))
def test_batches_hold_each_message_once_and_keep_their_bounds(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    monkeypatch.setattr(pulsar_rows, "BATCH_ROWS", 4)
    monkeypatch.setattr(pulsar_rows, "BATCH_BYTES", 50)
    messages = [Message(entry, b"x" * size) for entry, size in enumerate(sizes)]
    batches = [batch.to_pylist() for batch in message_batches(messages, "t", 3)]
    rows = [row for batch in batches for row in batch]
    assert [row["message_id"]["entry"] for row in rows] == list(range(len(sizes)))
    assert [len(row["value"]) for row in rows] == sizes
    for batch in batches:
        assert 0 < len(batch) <= 4
        assert sum(len(row["value"]) for row in batch[:-1]) < 50
    for batch in batches[:-1]:
        assert len(batch) == 4 or sum(len(row["value"]) for row in batch) >= 50


def test_what_a_message_lacks_is_null() -> None:
    full = Message(0, b"v", key="k", properties={"a": "1"}, event_ms=5)
    (batch,) = message_batches([full, Message(1, None)], "t", -1)
    first, second = batch.to_pylist()
    assert (first["key"], first["value"], dict(first["properties"])) == ("k", b"v", {"a": "1"})
    assert first["event_time"].timestamp() == 0.005
    assert first["publish_time"].timestamp() == 1_700_000_000.123
    assert first["message_id"] == {"ledger": 1, "entry": 0, "partition": -1, "batch_index": -1}
    assert [second[name] for name in ("key", "value", "properties", "event_time")] == [None, None, [], None]
