"""The operator who drained each broker stays recorded through the changes of others."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.sources import EarlierChange, NotedChange
from pulsar_barycenter.load.drain_notes import LONGEST_EARLIER_WHY, drained_by, with_earlier
from pulsar_barycenter.load.policies import drained_text

BROKERS = ("a:1", "b:1", "c:1", "d:1")


@given(st.lists(st.sampled_from(BROKERS), max_size=30))
def test_the_last_note_tells_of_each_drained_broker_who_drained_it_last(toggled: list[str]) -> None:
    drained: dict[str, EarlierChange] = {}
    note: NotedChange | None = None
    for at, broker in enumerate(toggled):
        before, who = drained_text(list(drained)), EarlierChange(by=f"person-{at}", at=at, why=f"why {at}")
        if broker in drained:
            del drained[broker]
        else:
            drained[broker] = who
        change = NotedChange(by=who.by, at=at, why=who.why, before=before, value=drained_text(list(drained)))
        note = with_earlier(change, note)
        assert {each: drained_by(note, each) for each in BROKERS} == {each: drained.get(each) for each in BROKERS}


def test_who_drained_without_a_note_is_not_known_and_a_long_reason_is_cut() -> None:
    first = NotedChange(by="alice", at=1, value="b:1,a:1", before="b:1", why="x" * 4_000)
    second = with_earlier(NotedChange(by="bob", at=2, value="b:1,a:1,c:1", before="b:1,a:1"), first)
    assert second.earlier == {"a:1": EarlierChange(by="alice", at=1, why="x" * LONGEST_EARLIER_WHY)}
    assert drained_by(second, "b:1") is None
    assert with_earlier(first, None) == first


def test_a_removed_override_leaves_brokers_drained_and_who_drained_them() -> None:
    drained = NotedChange(by="alice", at=1, value="a:1", before=",")
    removed = with_earlier(NotedChange(by="bob", at=2, before="a:1"), drained)
    assert drained_by(removed, "a:1") == EarlierChange(by="alice", at=1)
