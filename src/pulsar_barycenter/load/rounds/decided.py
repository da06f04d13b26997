"""Decisions on a snapshot as lines, and the state of a bundle: values for whatever prints them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec

from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot


class Figures(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The load of a broker or bundle (docs/measures.md), in + out: rate in msg/s, throughput in bytes/s; usage is a
    fraction.

    Values of a broker are from its newest report, values of a bundle from its short window, unless stated otherwise.
    """

    msg_rate: float
    msg_throughput: float
    usage: float | None = None
    bundles: int | None = None


class Decided(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One line of output: a decision about a bundle, or a verdict on a broker. `kind` is "verdict", or one of the kinds
    of decisions in the decision log. `cycle` is the number of the round, from 1.

    A verdict gives the reason why `broker` sheds `unloads` bundles or sheds none. For a bundle that moves, `placement`
    is the reason why it goes to `destination`.
    """

    cycle: int
    kind: str
    broker: str = ""
    figures: Figures | None = None
    unloads: int = 0
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    sentence: str
    reason: Reason
    placement: Reason | None = None


class BundleState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The broker of a bundle and the load of the bundle: `latest` is the load in the broker's newest report; `figures`
    is the load in the short-term window, on which decisions are based. `held` is why no shedder may choose the bundle;
    "" if shedders may choose it.
    """

    kind: str = "bundle"
    bundle: str
    broker: str
    latest: Figures
    figures: Figures
    topics: int
    held: str


def state_of(snapshot: LoadSnapshot, bundle: str) -> list[BundleState]:
    """Return the state of a bundle at each broker that reports it. While the bundle moves, this can be several
    brokers.
    """
    bundles = snapshot.bundles
    found = []
    for row in range(bisect_left(bundles.names, bundle), bisect_right(bundles.names, bundle)):
        why = (
            (bundles.broker_bound[row], "its namespace belongs to the broker"),
            (bundles.recently_unloaded[row], "it was unloaded a short while ago"),
            (not bundles.listed[row], "its broker reports its load, but does not list it as a bundle"),
            (not bundles.has_windows[row], "its load over time is unknown"),
        )
        figures = Figures(msg_rate=float(bundles.short.rate[row]), msg_throughput=float(bundles.short.throughput[row]))
        found.append(
            BundleState(
                bundle=bundle,
                broker=snapshot.brokers.names[bundles.owner[row]],
                latest=Figures(
                    msg_rate=float(bundles.latest.rate[row]), msg_throughput=float(bundles.latest.throughput[row])
                ),
                figures=figures,
                topics=int(bundles.topics[row]),
                held=next((text for holds, text in why if holds), ""),
            )
        )
    return found


def concerning(
    lines: Iterable[Decided], snapshot: LoadSnapshot, *, bundle: str = "", namespace: str = "", broker: str = ""
) -> list[Decided]:
    """Return those of `lines` that are about one bundle, one namespace or one broker. The caller passes exactly one of
    these three; the others stay "".

    For a bundle, the verdict on its owner is included.
    """
    owners = {state.broker for state in state_of(snapshot, bundle)} if bundle else set()
    return [line for line in lines if _concerns(line, owners, bundle, namespace, broker)]


def _concerns(line: Decided, owners: set[str], bundle: str, namespace: str, broker: str) -> bool:
    if line.kind == "verdict":
        return line.broker in owners or line.broker == broker
    if line.kind == "shed":
        return bool(owners or namespace or broker)
    if bundle:
        return line.bundle == bundle
    if namespace:
        return line.bundle.rpartition("/")[0] == namespace
    return broker in (line.source, line.destination)


def sources_of(lines: Iterable[Decided]) -> list[str]:
    """Return the brokers from which the unloads in `lines` take bundles, each broker once."""
    return list(dict.fromkeys(line.source for line in lines if line.kind == "unload"))
