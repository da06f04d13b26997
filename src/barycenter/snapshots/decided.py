"""What is decided upon a snapshot, line by line, and where a bundle is: values, whoever prints them."""

from bisect import bisect_left, bisect_right

import msgspec

from barycenter.load.reasons import Reason
from barycenter.load.snapshot.load_snapshot import LoadSnapshot


class Figures(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a broker or bundle carries: rates are msg/s, throughput is bytes/s, both in + out; usage is a fraction.

    A broker's are those of its newest report, a bundle's those of its short window.
    """

    msg_rate: float
    msg_throughput: float
    usage: float | None = None
    bundles: int | None = None


class Decided(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One line. `kind` as in the decision log, and "verdict": why `broker` sheds (`unloads` bundles) or does not.

    `placement` says why a bundle goes to `destination`.
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
    """Where a bundle is and what it carries; `held` says why no shedder may choose it, "" if any may."""

    kind: str = "bundle"
    bundle: str
    broker: str
    figures: Figures
    topics: int
    held: str


def state_of(snapshot: LoadSnapshot, bundle: str) -> list[BundleState]:
    """Return a state for each broker that reports the bundle."""
    bundles = snapshot.bundles
    found = []
    for row in range(bisect_left(bundles.names, bundle), bisect_right(bundles.names, bundle)):
        why = (
            (bundles.broker_bound[row], "its namespace belongs to the broker"),
            (bundles.recently_unloaded[row], "it was unloaded a short while ago"),
            (not bundles.listed[row], "its broker reports figures of it, but does not list it"),
            (not bundles.has_windows[row], "nothing is known of its past"),
        )
        figures = Figures(msg_rate=float(bundles.short.rate[row]), msg_throughput=float(bundles.short.throughput[row]))
        found.append(
            BundleState(
                bundle=bundle,
                broker=snapshot.brokers.names[bundles.owner[row]],
                figures=figures,
                topics=int(bundles.topics[row]),
                held=next((text for holds, text in why if holds), ""),
            )
        )
    return found
