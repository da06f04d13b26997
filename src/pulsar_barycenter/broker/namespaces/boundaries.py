"""Reads, replaces and copies the stored boundaries of a namespace's bundles.

The authoritative boundaries are in `/admin/local-policies/<namespace>`; the namespace's policies have a copy.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.broker.namespaces.policies import BundlesData
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, MetadataStore, Record
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidBundlesError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound, is_system_namespace

LOCAL_POLICIES_ROOT: Final = "/admin/local-policies/"
POLICIES_ROOT: Final = "/admin/policies/"


class _WithBundles(msgspec.Struct, frozen=True):
    """The only field that is read of a Policies or LocalPolicies record here: the bundles."""

    bundles: BundlesData | None = None


def local_policies_path(namespace: NamespaceName) -> str:
    return f"{LOCAL_POLICIES_ROOT}{namespace}"


def needs_no_record(namespace: NamespaceName) -> bool:
    """Return whether a namespace exists even if the store has no record of it: the namespaces that belong to one
    broker, and the system namespace. Without a record, such a namespace has one bundle.
    """
    return is_broker_bound(namespace) or is_system_namespace(namespace)


def bundles_of_record(namespace: NamespaceName, record: Record) -> NamespaceBundles:
    """Return the bundles in a policies or local-policies record.

    Raises:
        InvalidValueError: the boundaries are not valid.
    """
    bundles = bundles_data(record)
    version = record.stat.version
    try:
        if bundles is not None and bundles.boundaries:
            return NamespaceBundles.from_boundaries(namespace, bundles.boundaries, version=version)
        count = bundles.num_bundles if bundles is not None and bundles.num_bundles > 0 else 1
        return NamespaceBundles.equal(namespace, count, version=version)
    except InvalidBundlesError as error:
        raise InvalidValueError(record.stat.path, str(error)) from error


def first_bundles(namespace: NamespaceName, policies: Record, default_count: int) -> NamespaceBundles:
    """Return the first bundles of a new namespace: those in its policies, else `default_count` bundles of equal width.

    Raises:
        InvalidValueError: the boundaries are not valid.
    """
    bundles = bundles_data(policies)
    if bundles is None or not (bundles.boundaries or bundles.num_bundles):
        return NamespaceBundles.equal(namespace, default_count)
    return bundles_of_record(namespace, policies)


def bundles_data(record: Record) -> BundlesData | None:
    """Return the field `bundles` of a policies or local-policies record, None if it has none.

    Raises:
        InvalidValueError: the record is neither a policies nor a local-policies record.
    """
    try:
        return msgspec.json.decode(record.value, type=_WithBundles).bundles
    except msgspec.DecodeError as error:
        raise InvalidValueError(record.stat.path, str(error)) from error


@dataclass(frozen=True, slots=True)
class StoredBundles:
    """Bundles of a namespace. `value` is the record from which they were decoded; None: there is no record, or it is
    not known.
    """

    bundles: NamespaceBundles
    value: bytes | None = None


async def read_or_create(
    store: MetadataStore, namespace: NamespaceName, default_count: Callable[[], int], known: StoredBundles | None
) -> StoredBundles | None:
    """Return the bundles of a namespace. None: this call or another broker has just created the record, so call this
    again.

    If the namespace has no record of bundles, it gets one from its policies. A namespace without policies has a single
    bundle. `known` was read before: if the stored record is still the same, `known` is returned. This saves time,
    because each acquisition reads the record, which may have thousands of bundles. The values are compared, because the
    version is not enough: a deleted namespace that is created again starts at version 0.

    Raises:
        InvalidValueError: the boundaries are not valid.
    """
    path = local_policies_path(namespace)
    record = await store.get(path)
    if record is not None:
        if known is not None and (known.value, known.bundles.version) == (record.value, record.stat.version):
            return known
        return StoredBundles(bundles_of_record(namespace, record), record.value)
    policies = await store.get(f"{POLICIES_ROOT}{namespace}")
    if policies is None:
        return StoredBundles(NamespaceBundles.full(namespace))
    new = first_bundles(namespace, policies, default_count())
    with suppress(BadVersionError):
        await store.put(path, boundaries_value(None, new), expected_version=MUST_NOT_EXIST)
    return None


async def replace_boundaries(
    store: MetadataStore,
    old: NamespaceBundles,
    new: NamespaceBundles,
    guard: Guard | None = None,
    *,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Replace the boundaries of `old` by those of `new`, and keep all other fields; return the record's new version.

    `check` is called immediately before the write, and may raise to prevent it.

    Raises:
        BadVersionError: the record has changed since `old` was read, or `guard` does not match.
    """
    path = local_policies_path(old.namespace)
    record = await store.get(path)
    found = None if record is None else record.stat.version
    if found != old.version:
        raise BadVersionError(path, old.version, found)
    value = boundaries_value(None if record is None else record.value, new)
    expected = MUST_NOT_EXIST if old.version is None else old.version
    check()
    stat = await store.put(path, value, expected_version=expected, guard=guard)
    return stat.version


async def copy_boundaries_to_policies(store: MetadataStore, namespace: NamespaceName) -> None:
    """Copy the boundaries in the namespace's local policies to its policies. If one of the two records does not exist,
    do nothing.

    If another writer changes the policies meanwhile, read both records again. So if two brokers copy at the same time,
    the copy that remains has the newest boundaries.
    """
    path = f"{POLICIES_ROOT}{namespace}"
    while True:
        policies = await store.get(path)
        local = await store.get(local_policies_path(namespace))
        if policies is None or local is None:
            return
        value = boundaries_value(policies.value, bundles_of_record(namespace, local))
        with suppress(BadVersionError):
            await store.put(path, value, expected_version=policies.stat.version)
            return


def boundaries_value(record: bytes | None, bundles: NamespaceBundles) -> bytes:
    """Return the value of a policies or local-policies record with the boundaries of `bundles`. `record` is the old
    value; None: there is none.
    """
    fields = {} if record is None else msgspec.json.decode(record, type=dict[str, object])
    boundaries = bundles.boundary_texts()
    fields["bundles"] = {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
    return msgspec.json.encode(fields)
