"""The boundaries of a namespace's bundles as the store holds them: read, replaced by compare-and-set, copied.

The authoritative ones are those of `/admin/local-policies/<namespace>`; the policies hold a copy.
"""

from collections.abc import Callable
from contextlib import suppress
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
    """The part that matters here of both records, Policies and LocalPolicies."""

    bundles: BundlesData | None = None


def local_policies_path(namespace: NamespaceName) -> str:
    return f"{LOCAL_POLICIES_ROOT}{namespace}"


def needs_no_record(namespace: NamespaceName) -> bool:
    """Tell whether a namespace exists without policies, as one bundle: those of brokers and of the system."""
    return is_broker_bound(namespace) or is_system_namespace(namespace)


def bundles_of_record(namespace: NamespaceName, record: Record) -> NamespaceBundles:
    """Return the bundles that a record says.

    Raises:
        InvalidValueError: its boundaries are none.
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


def bundles_data(record: Record) -> BundlesData | None:
    """Return the part of a policies or local-policies record that tells its bundles.

    Raises:
        InvalidValueError: it is neither.
    """
    try:
        return msgspec.json.decode(record.value, type=_WithBundles).bundles
    except msgspec.DecodeError as error:
        raise InvalidValueError(record.stat.path, str(error)) from error


async def replace_boundaries(
    store: MetadataStore,
    old: NamespaceBundles,
    new: NamespaceBundles,
    guard: Guard | None = None,
    *,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Write the boundaries of `new` where those of `old` are, all other fields carried over; return the version.

    `check` is called at the moment in which the write begins, and may raise what keeps it from being.

    Raises:
        BadVersionError: the record is no longer the one that `old` was read from, or `guard` does not hold.
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
    """Bring the copy in the namespace's policies in step with the local record as it is now.

    Reads the local record anew in each attempt, so of two brokers that copy at once the later copies the newer
    list. A namespace without policies gets none.
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
    """Return a policies or local-policies record with the boundaries of `bundles`; None makes a new one."""
    fields = {} if record is None else msgspec.json.decode(record, type=dict[str, object])
    boundaries = bundles.boundary_texts()
    fields["bundles"] = {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
    return msgspec.json.encode(fields)
