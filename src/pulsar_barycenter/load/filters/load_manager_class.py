"""Load manager class: keep brokers that run the same load manager, so that bundles follow a rolling change.

When to use it: it is always on. While brokers change to another load manager one by one, bundles move to those that
have changed. If no broker runs the same load manager, the modular load manager ignores the filters.

Source: Pulsar's `BrokerLoadManagerClassFilter`.
"""

from typing import Final

from pulsar_barycenter.load.filters.outcome import FilterOutcome, narrowed
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

_KEYS: Final = ("loadManagerClassName",)


def load_manager_class(snapshot: LoadSnapshot, candidates: Flags, class_name: str) -> FilterOutcome:
    """Remove the candidates whose load manager has another class name than `class_name`, and those that report no class
    name.

    `class_name` is a Java class name with its package; the comparison ignores the package.
    """
    same = snapshot.brokers.runs_class(class_name.rpartition(".")[2])
    if same is snapshot.brokers.everyone:
        return FilterOutcome(candidates, candidates, 0, Code.OTHER_LOAD_MANAGER, _KEYS)
    return narrowed(candidates, candidates & same, Code.OTHER_LOAD_MANAGER, _KEYS)
