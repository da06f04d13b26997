"""Checks of namespaces: whether bundles tile the hash range, outdated caches, and the number of bundles."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import Picture, is_users
from pulsar_barycenter.naming.bundle import MAX_HASH, parse_boundary
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError

_UNTILED = (
    "write the boundaries again with the tools of the metadata store: they rise from 0x00000000 to 0xffffffff, each a "
    "quoted text; the copy in /admin/policies/{namespace} may be intact. Then restart the brokers"
)


def tiling(picture: Picture) -> Iterator[ClusterFinding]:
    """The boundaries of a namespace's bundles leave gaps in the hash range, or bundles overlap.

    Yields a finding for each namespace whose boundaries do not cover the hash range, are not in rising order, or cannot
    be read by any broker.
    """
    for name, boundaries in sorted(picture.known_boundaries.items()):
        fault = untiled(boundaries)
        if fault:
            yield found(
                Severity.CRITICAL,
                name,
                f"its bundles do not tile the hash range: {fault}; its topics cannot be found",
                _UNTILED.format(namespace=name),
            )
        elif out_of_order(boundaries):
            yield found(
                Severity.WARNING,
                name,
                "its boundaries are not in rising order, or one occurs twice; brokers of Apache Pulsar "
                "cannot read them",
                _UNTILED.format(namespace=name),
            )
    known = picture.known_boundaries
    for namespace in picture.namespaces or ():
        if namespace.failure and namespace.name not in known:
            yield found(
                Severity.CRITICAL,
                namespace.name,
                f"no broker can read its bundles: {namespace.failure}",
                _UNTILED.format(namespace=namespace.name),
            )


def untiled(boundaries: Sequence[str]) -> str:
    """Return why boundaries, in any order, do not tile the hash range from 0 to 0xffffffff; blank if they do.

    No boundaries at all mean a single bundle.
    """
    try:
        edges = sorted(parse_boundary(boundary) for boundary in boundaries)
    except InvalidNameError as error:
        return str(error)
    if not edges:
        return ""
    if edges[0] != 0:
        return f"the first begins at 0x{edges[0]:08x}, not at 0x00000000"
    if edges[-1] != MAX_HASH:
        return f"the last ends at 0x{edges[-1]:08x}, not at 0xffffffff"
    return ""


def out_of_order(boundaries: Sequence[str]) -> bool:
    """Return whether the boundaries, which are hashes, are not in rising order or have duplicates."""
    return any(upper <= lower for lower, upper in pairwise(map(parse_boundary, boundaries)))


def boundary_copies(picture: Picture) -> Iterator[ClusterFinding]:
    """The copy of the boundaries in the policies differs from the list that brokers use.

    Yields a finding for each such namespace.
    """
    assert picture.store is not None
    for name, boundaries in sorted(picture.store.boundaries.items()):
        copy = picture.store.copies.get(name)
        if copy and boundaries and copy != boundaries:
            yield found(
                Severity.WARNING,
                name,
                f"its policies list {count_of(len(copy) - 1, 'bundle')}, and brokers serve {len(boundaries) - 1:,}; "
                "tools that read the policies show the wrong number",
                "the next split corrects the copy; brokers do not use it",
            )


def stale_bundles(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker uses other boundaries than the metadata store has.

    Yields a finding for each such broker and namespace.
    """
    known = picture.known_boundaries
    for broker in picture.answering:
        for name, boundaries in sorted(broker.boundaries.items()):
            if known.get(name) and boundaries != known[name]:
                yield found(
                    Severity.ERROR,
                    f"{broker.broker} {name}",
                    f"it uses {count_of(len(boundaries) - 1, 'bundle')}, the metadata store has "
                    f"{len(known[name]) - 1:,}: its cache is outdated, and it sends clients to the wrong owners",
                    f"restart {broker.broker}",
                )


def stale_policies(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker uses other policies of a namespace than the other brokers.

    Yields a finding for each such broker and namespace. Only fields that all brokers return are compared, as brokers of
    different versions return different fields.
    """
    returned: dict[str, dict[str, Mapping[str, object]]] = {}
    for broker in picture.answering:
        for name, policies in broker.policies.items():
            returned.setdefault(name, {})[broker.broker] = policies
    for name, by_broker in sorted(returned.items()):
        shared = frozenset.intersection(*map(frozenset, by_broker.values()))
        for odd in minority({broker: _text(policies, shared) for broker, policies in by_broker.items()}):
            yield found(
                Severity.ERROR,
                f"{odd} {name}",
                "it uses other policies of this namespace than most brokers: its cache is outdated",
                f"restart {odd}; compare `pulsar-admin namespaces policies {name}` at both",
            )


def _text(policies: Mapping[str, object], fields: Collection[str]) -> str:
    return msgspec.json.encode({name: policies[name] for name in sorted(fields)}, order="deterministic").decode()


def minority(texts: Mapping[str, str]) -> list[str]:
    """Return the brokers whose text differs from the most common text (`texts` maps brokers to texts). If several texts
    are equally common, the one that is first in alphabetical order counts as the most common.
    """
    counts = Counter(texts.values())
    most = min(counts, key=lambda text: (-counts[text], text), default="")
    return sorted(name for name, text in texts.items() if text != most)


def few_bundles(picture: Picture) -> Iterator[ClusterFinding]:
    """A namespace has fewer bundles than there are brokers.

    Yields a finding for each such namespace.
    """
    brokers = len(picture.registered)
    for name, bundles in sorted(picture.bundles.items()):
        if is_users(name) and len(bundles) < brokers:
            yield found(
                Severity.INFO,
                name,
                f"it has {count_of(len(bundles), 'bundle')} and there are {count_of(brokers, 'broker')}, so some "
                "brokers never serve it",
                f"if it carries much load: pulsar-admin namespaces split-bundle --bundle LARGEST {name}",
            )


def unreadable_keys(picture: Picture) -> Iterator[ClusterFinding]:
    """A key of the metadata store has a value that no broker can read.

    Yields a finding for each such key.
    """
    assert picture.store is not None
    for path, reason in sorted(picture.store.unreadable.items()):
        yield found(
            Severity.ERROR,
            path,
            f"its value cannot be read: {reason}",
            "write it again, or delete it if it is not needed, with the tools of the metadata store",
        )
