"""Positions of messages in a topic, their order and their JSON.

A position is that of the last message read: the next message to read comes after it. A position without `batch_index`
is after the whole entry, which is one message or one batch. In a checkpoint and in options it is an object:

    {"ledger": 12, "entry": 34}                        after entry 34 of ledger 12
    {"ledger": 12, "entry": 34, "batch_index": 2}      after the third message of the batch in that entry
    {"ledger": -1, "entry": -1}                        before all messages

Positions in one topic or partition are ordered like its messages. Positions in different topics cannot be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

WHOLE_ENTRY: Final = 2**31 - 1
"""The batch index of a position after all messages of its entry."""

_FIELDS: Final = ("ledger", "entry", "batch_index")
_LARGEST: Final = 2**63 - 1


class ClientMessageId(Protocol):
    """A message id of the Pulsar client, with the three methods that are needed here."""

    def ledger_id(self) -> int: ...

    def entry_id(self) -> int: ...

    def batch_index(self) -> int: ...


@dataclass(frozen=True, slots=True, order=True)
class Position:
    ledger: int
    entry: int
    batch_index: int = WHOLE_ENTRY

    @staticmethod
    def of(message_id: ClientMessageId) -> "Position":
        """Return the position of a message. It includes the message: reading from this position on continues with the
        next message.
        """
        index = message_id.batch_index()
        return Position(message_id.ledger_id(), message_id.entry_id(), index if index >= 0 else WHOLE_ENTRY)

    @staticmethod
    def from_json(value: Any) -> "Position":
        """Return the position that the JSON object `value` describes. A `batch_index` of -1 means the whole entry,
        otherwise the position is inside a batch of messages.

        Raises:
            ValueError: `value` is not a position.
        """
        if not isinstance(value, Mapping) or not {"ledger", "entry"} <= set(value) <= set(_FIELDS):
            raise ValueError(f'a position is {{"ledger": …, "entry": …}} with an optional "batch_index", not {value!r}')
        if not all(type(number) is int and -1 <= number <= _LARGEST for number in value.values()):
            raise ValueError(f"the numbers of a position are integers of at least -1, not {value!r}")
        index = value.get("batch_index", -1)
        if index > WHOLE_ENTRY:
            raise ValueError(f"batch_index {index} is too large: it is at most {WHOLE_ENTRY}")
        return Position(value["ledger"], value["entry"], WHOLE_ENTRY if index == -1 else index)

    def to_json(self) -> dict[str, int]:
        """Return the position as a JSON object, which `from_json` reads."""
        whole = {"ledger": self.ledger, "entry": self.entry}
        return whole if self.batch_index == WHOLE_ENTRY else whole | {"batch_index": self.batch_index}

    def before(self) -> "Position":
        """Return the position just before this one: reading from there on begins with the message at this position."""
        if 0 < self.batch_index < WHOLE_ENTRY:
            return Position(self.ledger, self.entry, self.batch_index - 1)
        return Position(self.ledger, self.entry - 1)


EARLIEST: Final = Position(-1, -1)

Positions = dict[str, Position]
"""Positions keyed by the full name of the topic or partition."""


def positions_from_json(offset: Mapping[str, Any]) -> Positions:
    """Return the position of each topic from `offset`, the JSON that Spark keeps in the checkpoint."""
    return {topic: Position.from_json(value) for topic, value in offset.items()}


def positions_to_json(positions: Mapping[str, Position]) -> dict[str, dict[str, int]]:
    """Return the positions of topics as JSON for Spark's checkpoint, sorted by topic, because Spark compares offsets as
    text.
    """
    return {topic: positions[topic].to_json() for topic in sorted(positions)}
