"""What the answer of every filter must be."""

import operator

import numpy as np

from pulsar_barycenter.load.filters.outcome import FilterOutcome
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

_RELATIONS = {">": operator.gt, ">=": operator.ge, "=": operator.eq, "<=": operator.le, "<": operator.lt}


def removed(outcome: FilterOutcome) -> list[int]:
    """Return the rows of the removed brokers."""
    return np.flatnonzero(outcome.among & ~outcome.kept).tolist()


def assert_narrows(snapshot: LoadSnapshot, among: Flags, outcome: FilterOutcome) -> None:
    """Assert that a filter only removes, reports whether it did, and gives a true comparison for each removed
    broker."""
    assert (outcome.among == among).all()
    assert not (outcome.kept & ~among).any()
    gone = removed(outcome)
    assert outcome.gone == len(gone)
    alternatives = outcome.alternatives(snapshot.brokers.names, gone)
    assert [each.name for each in alternatives] == [snapshot.brokers.names[row] for row in gone]
    for each in alternatives:
        if each.compared is not None:
            assert _RELATIONS[each.compared.relation](each.compared.value, each.compared.limit), each
