"""Load manager class: keep brokers that run the same load manager, so that a rolling change moves bundles over.

When to use it: it is always on; while brokers change over to another load manager one by one, bundles follow. Where
nobody runs the same one the modular load manager puts the filter aside.

Source: Pulsar's `BrokerLoadManagerClassFilter`.
"""

from barycenter.load.filters.outcome import FilterOutcome, left_of
from barycenter.load.reasons import Code
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot


def load_manager_class(snapshot: LoadSnapshot, candidates: Flags, class_name: str) -> FilterOutcome:
    """Remove brokers whose report names another class than `class_name`, or none; the last part of the name counts."""
    same = snapshot.brokers.runs_class(class_name.rpartition(".")[2])
    kept = candidates if same is snapshot.brokers.everyone else left_of(candidates, candidates & same)
    return FilterOutcome(candidates, kept, Code.OTHER_LOAD_MANAGER, ("loadManagerClassName",))
