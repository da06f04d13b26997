"""Explains why a bundle is where it is and what would move it, from the decisions that the leader would take now.

Pure. It needs numpy, so a broker imports it at the first request for an explanation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.dashboard.loads_after import Sides, bundle_counts, bundle_row, sides_of
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.rounds.balance import Balance, balance_of
from pulsar_barycenter.load.rounds.decided import BundleState, Decided, Figures, concerning, state_of
from pulsar_barycenter.load.rounds.snapshot_rounds import placement_lines, shedding_rounds, split_rounds
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

MOST_LINES: Final = 200


class DecisionInWords(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A decision of `load.rounds.decided` as text. `sentence` is the whole reason, `short` is a short form of it, and
    `placement` is the reason why a bundle goes to `destination`.
    """

    kind: str
    sentence: str
    short: str
    broker: str = ""
    figures: Figures | None = None
    unloads: int = 0
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    placement: str = ""


class Move(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The effect of a move of a bundle to a broker. `sides` has the load of each broker concerned, before and after the
    move. `objection` says why policies forbid the move; "" if they do not.
    """

    bundle: str
    objection: str
    sides: list[Sides]


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer to a request for an explanation.

    `states` has the bundle's owner and load, by the short-term window; `load` is the bundle's load in the newest
    report, None if it is in no report. `lines` has the decisions that the leader would take now, at most MOST_LINES of
    them, and `shedding` the brokers from which it would unload bundles. `placed` is the assignment of the bundle if its
    owner were chosen now; None if the request names no bundle. `move` is the effect of the move that the request names;
    None if it names none.
    """

    taken_at: int
    states: list[BundleState]
    lines: list[DecisionInWords]
    shedding: list[str]
    load: Figures | None = None
    placed: DecisionInWords | None = None
    move: Move | None = None


class ClusterBalance(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How evenly brokers are used, and the decision that the current shedder would take now: the number of `unloads`,
    and the reason (`sentence`). `short` is a short form of `sentence`.
    """

    taken_at: int
    balance: Balance
    unloads: int
    short: str
    sentence: str


@dataclass(frozen=True, slots=True)
class SnapshotDecisions:
    """A snapshot, the number of bundles of each broker in it, and all decisions that would be taken on it."""

    snapshot: LoadSnapshot
    bundle_counts: Mapping[str, int]
    lines: tuple[Decided, ...]


def decisions_upon(document: SnapshotDocument, config: BrokerConfig, manager: ManagerKind) -> SnapshotDecisions:
    """Run the leader's round and its split check on the snapshot `document`, and return the decisions; none of them is
    carried out.

    Raises:
        PolicyError, StrategyError: the document or the configuration is not valid.
    """
    snapshot = document.snapshot()
    rounds, _ = shedding_rounds(snapshot, config, document.memory, 1, 0, manager)
    lines = (*rounds[0], *split_rounds(snapshot, config, 1, manager)[0])
    return SnapshotDecisions(snapshot, bundle_counts(document), lines)


def explained(
    known: SnapshotDecisions,
    config: BrokerConfig,
    manager: ManagerKind,
    *,
    bundle: str = "",
    namespace: str = "",
    broker: str = "",
    destination: str = "",
    owner: str = "",
) -> Explanation:
    """Return the explanation of a bundle, a namespace or a broker, and the effect of a move of the bundle.

    The move goes from `owner`, the bundle's present owner ("" if it has none), to `destination`; "" means no move.
    Reports are older than ownership records, so they may still list the bundle under another broker.
    """
    snapshot = known.snapshot
    lines = concerning(known.lines, snapshot, bundle=bundle, namespace=namespace, broker=broker)
    placed = next(placement_lines(snapshot, config, [bundle], 0, manager), None) if bundle else None
    return Explanation(
        taken_at=snapshot.taken_at_ms,
        states=state_of(snapshot, bundle) if bundle else [],
        lines=[_in_words(line) for line in lines[:MOST_LINES]],
        shedding=list(dict.fromkeys(line.source for line in known.lines if line.kind == "unload")),
        load=_load_of(snapshot, bundle) if bundle else None,
        placed=None if placed is None else _in_words(placed),
        move=_move(known, config, bundle, owner, destination) if bundle and destination else None,
    )


def cluster_balance(known: SnapshotDecisions, config: BrokerConfig) -> ClusterBalance:
    """Return how evenly the brokers of a snapshot are used, and what the shedder decides on this snapshot."""
    [outcome] = [line for line in known.lines if line.kind == "shed"]
    return ClusterBalance(
        taken_at=known.snapshot.taken_at_ms,
        balance=balance_of(known.snapshot, config),
        unloads=sum(1 for line in known.lines if line.kind == "unload"),
        short=short_reason(outcome.sentence),
        sentence=outcome.sentence,
    )


def _in_words(line: Decided) -> DecisionInWords:
    return DecisionInWords(
        kind=line.kind,
        sentence=line.sentence,
        short=short_reason(line.sentence),
        broker=line.broker,
        figures=line.figures,
        unloads=line.unloads,
        bundle=line.bundle,
        source=line.source,
        destination=line.destination,
        refused=line.refused,
        placement="" if line.placement is None else render(line.placement),
    )


def _load_of(snapshot: LoadSnapshot, bundle: str) -> Figures | None:
    row = bundle_row(snapshot, bundle)
    if row is None:
        return None
    latest = snapshot.bundles.latest
    return Figures(msg_rate=float(latest.rate[row]), msg_throughput=float(latest.throughput[row]))


def _move(known: SnapshotDecisions, config: BrokerConfig, bundle: str, owner: str, destination: str) -> Move:
    snapshot, brokers = known.snapshot, known.snapshot.brokers
    row = brokers.index.get(destination)
    if row is None:
        return Move(bundle=bundle, objection=f"The load of {destination} is not known.", sides=[])
    candidates = policy_candidates(snapshot, PlacementRequest(bundle))
    objection = ""
    if not candidates.kept[row]:
        [why] = candidates.alternatives(brokers.names, [row])
        objection = f"Policies keep it away from {destination}: {str(why.code).replace('_', ' ')}."
    sides = sides_of(snapshot, config, [(bundle, owner, destination)], known.bundle_counts)
    return Move(bundle=bundle, objection=objection, sides=sides)
