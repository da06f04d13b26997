"""Writes the boundaries of a split, and finds out whether they were written."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.namespaces.boundaries import replace_boundaries
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.metadata.errors import BadVersionError, StoreUnavailableError
from pulsar_barycenter.metadata.store import Guard, MetadataStore
from pulsar_barycenter.naming.bundles import NamespaceBundles

log = structlog.get_logger(__name__)

SPLIT_PAUSE_S: Final = 0.1
_UNKNOWN_OUTCOME_ATTEMPTS: Final = 20


async def write_split(
    store: MetadataStore,
    cache: BundleCache,
    before: NamespaceBundles,
    after: NamespaceBundles,
    guard: Guard | None = None,
    *,
    check: Callable[[], None],
) -> NamespaceBundles:
    """Write the boundaries of `after` by compare-and-set, if those of `before` are stored; return the stored bundles.

    If the outcome of a write is not known, this reads the record, and writes again if necessary, until the outcome is
    known, in at most _UNKNOWN_OUTCOME_ATTEMPTS attempts.

    `check` has to raise an error if this broker does not own the parent bundle any more. It is called immediately
    before each write, and the store writes nothing for a session that has expired since. Without this check, a broker
    that lost the parent between two attempts would split a bundle that another broker serves as a whole.

    Raises:
        BadVersionError: the boundaries were not written; GuardError (a subclass): `guard` does not match.
        StoreUnavailableError: the outcome is not known after the last attempt.
    """
    namespace, unknown = before.namespace, False
    for attempt in range(_UNKNOWN_OUTCOME_ATTEMPTS):
        if attempt:
            await asyncio.sleep(SPLIT_PAUSE_S)
        try:
            version = await replace_boundaries(store, before, after, guard, check=check)
            return NamespaceBundles(namespace, after.boundaries, version)
        except BadVersionError:
            if not unknown:
                raise
            found = await cache.fresh(namespace)
            if set(after.boundaries) <= set(found.boundaries):
                return found  # an earlier attempt was written
            raise
        except StoreUnavailableError as error:
            unknown = True
            log.warning("bundle_split_outcome_unknown", namespace=str(namespace), reason=str(error))
    raise StoreUnavailableError(
        str(namespace),
        "it is not known whether the boundaries of the split were written, because the store did not answer: check "
        "the store, then read the bundles of the namespace",
    )
