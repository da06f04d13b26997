"""Load manager class: keep brokers that run the same load manager, so that a rolling change moves bundles over.

When to use it: it is always on; while brokers change over to another load manager one by one, bundles follow. Where
nobody runs the same one the modular load manager puts the filter aside.

Source: Pulsar's `BrokerLoadManagerClassFilter`.
"""

from typing import Final

from pulsar_barycenter.load.filters.outcome import FilterOutcome, narrowed
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

_KEYS: Final = ("loadManagerClassName",)


def load_manager_class(snapshot: LoadSnapshot, candidates: Flags, class_name: str) -> FilterOutcome:
    """Remove brokers whose report names another class than `class_name`, or none; the last part of the name counts."""
    same = snapshot.brokers.runs_class(class_name.rpartition(".")[2])
    if same is snapshot.brokers.everyone:
        return FilterOutcome(candidates, candidates, 0, Code.OTHER_LOAD_MANAGER, _KEYS)
    return narrowed(candidates, candidates & same, Code.OTHER_LOAD_MANAGER, _KEYS)
