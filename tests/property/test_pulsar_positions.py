"""Positions in topics: their order is that of the messages, and checkpoints keep them."""

import json
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.pulsar_source.positions import (
    EARLIEST,
    WHOLE_ENTRY,
    Position,
    positions_from_json,
    positions_to_json,
)


@dataclass(frozen=True)
class MessageId:
    """The client's id of a message: batch index -1 where the entry is one message."""

    ledger: int
    entry: int
    index: int

    def ledger_id(self) -> int:
        return self.ledger

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return self.index


@st.composite
def topics(draw: st.DrawFn) -> list[MessageId]:
    """Draw the ids of a topic's messages in order: ledgers with entries, each one message or a batch."""
    ledgers = sorted(draw(st.sets(st.integers(0, 2**62), min_size=1, max_size=3)))
    ids = []
    for ledger in ledgers:
        for entry, size in enumerate(draw(st.lists(st.integers(0, 4), max_size=4))):
            ids += [MessageId(ledger, entry, index) for index in (range(size) if size else (-1,))]
    return ids


@given(topics())
def test_positions_have_the_order_of_the_messages(ids: list[MessageId]) -> None:
    positions = [Position.of(each) for each in ids]
    assert positions == sorted(set(positions))
    assert all(position > EARLIEST for position in positions)


@given(topics())
def test_between_a_position_and_the_one_before_it_lies_its_message_alone(ids: list[MessageId]) -> None:
    for each in ids:
        position = Position.of(each)
        assert [other for other in ids if position.before() < Position.of(other) <= position] == [each]


@given(topics())
def test_a_whole_entry_lies_behind_each_of_its_messages(ids: list[MessageId]) -> None:
    for each in ids:
        whole = Position(each.ledger, each.entry)
        entry_or_earlier = [other for other in ids if (other.ledger, other.entry) <= (each.ledger, each.entry)]
        assert [other for other in ids if Position.of(other) <= whole] == entry_or_earlier


POSITIONS = st.builds(
    Position, st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1), st.integers(0, 99) | st.just(WHOLE_ENTRY)
)


@given(st.dictionaries(st.text(), POSITIONS))
def test_a_checkpoint_keeps_positions(positions: dict[str, Position]) -> None:
    text = json.dumps(positions_to_json(positions))
    assert positions_from_json(json.loads(text)) == positions


@given(st.dictionaries(st.text(), POSITIONS))
def test_equal_positions_are_equal_text(positions: dict[str, Position]) -> None:
    """Spark considers offsets different when their text is."""
    reversed_order = dict(reversed(positions.items()))
    assert json.dumps(positions_to_json(positions)) == json.dumps(positions_to_json(reversed_order))
