"""A slow and obvious version of the extensible load manager's split check: one bundle of one broker after the other."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy


@dataclass
class Checked:
    """`splits` are (bundle, what it exceeds first, boundary), in order; `failures` counts the bundles that cannot be
    split."""

    splits: list[tuple[str, str, int]] = field(default_factory=list)
    failures: int = 0


def ends(bundle: str) -> tuple[str, str, str]:
    namespace, _, text = bundle.rpartition("/")
    lower, upper = text.split("_")
    return namespace, lower, upper


def exceeds(stats: NamespaceBundleStats, settings: DefaultSplitStrategy) -> str | None:
    limits = settings.limits
    sessions = stats.consumer_count + stats.producer_count
    if stats.topics > limits.max_topics:
        return "Topics"
    if limits.max_sessions > 0 and sessions > limits.max_sessions:
        return "Sessions"
    if stats.msg_rate_in + stats.msg_rate_out > limits.max_rate:
        return "MsgRate"
    if stats.msg_throughput_in + stats.msg_throughput_out > limits.max_bandwidth:
        return "Bandwidth"
    return None


def check(
    stats: Mapping[str, NamespaceBundleStats],
    unowned: Collection[str],
    settings: DefaultSplitStrategy,
    hits: dict[str, int],
    counts: Mapping[str, int],
    boundaries: Callable[[str], Sequence[int]],
    splitting: Collection[str],
) -> Checked:
    """Return what one broker splits; `hits` is changed to the memory afterwards."""
    found = Checked()
    grown: dict[str, int] = {}
    for bundle in [bundle for bundle in hits if bundle not in stats]:
        del hits[bundle]
    for bundle in sorted(stats):
        namespace, lower, upper = ends(bundle)
        if stats[bundle].topics < 2 or bundle in unowned:
            continue
        if int(upper, 16) - int(lower, 16) <= 1:
            found.failures += 1
            continue
        reason = exceeds(stats[bundle], settings)
        if reason is None:
            hits.pop(bundle, None)
            continue
        hits[bundle] = hits.get(bundle, 0) + 1
        if hits[bundle] <= settings.hits:
            continue
        if counts[namespace] + grown.get(namespace, 0) >= settings.limits.max_bundles:
            continue
        parents = [ends(each) for each in splitting]
        if any(each[0] == namespace and (each[1] == lower or each[2] == upper) for each in parents):
            continue
        cuts = boundaries(bundle)
        if len(cuts) != 1:
            found.failures += 1
            continue
        found.splits.append((bundle, reason, cuts[0]))
        grown[namespace] = grown.get(namespace, 0) + 1
        del hits[bundle]
        if len(found.splits) == settings.most:
            break
    return found
