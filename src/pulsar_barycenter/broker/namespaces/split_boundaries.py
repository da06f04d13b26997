"""Writing the boundaries of a split, with certainty about whether they were written."""

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
    """Write by compare-and-set, and return what is written; an unknown outcome is cleared up before this returns.

    `check` raises once the parent is no longer this broker's: it is called at the moment in which a write begins, and a
    store writes nothing for a session that has ended since. Without it, a broker that lost the parent while it tried
    again would split what another one has found whole, and serves.

    Raises:
        BadVersionError: surely not written; a GuardError, because `guard` does not hold.
        StoreUnavailableError: still unknown after many attempts.
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
                return found  # an earlier attempt was written after all
            raise
        except StoreUnavailableError as error:
            unknown = True
            log.warning("bundle_split_outcome_unknown", namespace=str(namespace), reason=str(error))
    raise StoreUnavailableError(str(namespace), "the boundaries were perhaps written")
