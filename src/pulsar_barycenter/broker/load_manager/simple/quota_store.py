"""The resource quotas in the store: one a bundle, and the default of those without."""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from pulsar_barycenter.load.reports.load_report import ResourceQuota
from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

RESOURCE_QUOTA_ROOT: Final = "/loadbalance/resource-quota/namespace"
DEFAULT_QUOTA_PATH: Final = "/loadbalance/resource-quota/default"
_AT_ONCE: Final = 100
_KEPT: Final = 2_000_000


class QuotaStore:
    """Reads through a cache that follows the store's changes; close it before the store. Only the leader writes."""

    def __init__(self, store: MetadataStore, refresh_after_s: float) -> None:
        self._cache = MetadataCache(store, ResourceQuota, refresh_after_s=refresh_after_s, max_entries=_KEPT)

    def close(self) -> None:
        self._cache.close()

    async def default(self) -> ResourceQuota | None:
        """Return the stored default; None if there is none, or none that can be read."""
        return await self._get(DEFAULT_QUOTA_PATH)

    async def of(self, bundles: Iterable[str]) -> dict[str, ResourceQuota]:
        """Return the quotas of those bundles that have one that can be read."""
        names = list(bundles)
        found: dict[str, ResourceQuota] = {}
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            quotas = await asyncio.gather(*(self._get(f"{RESOURCE_QUOTA_ROOT}/{name}") for name in some))
            found.update({name: quota for name, quota in zip(some, quotas, strict=True) if quota is not None})
        return found

    async def write(self, quotas: Iterable[tuple[str | None, ResourceQuota]]) -> None:
        """Store the quotas of bundles, and the default (None).

        Raises:
            NotLeadingError, MetadataError: the store did not take one; others may have been stored.
        """
        items = list(quotas)
        for start in range(0, len(items), _AT_ONCE):
            await asyncio.gather(
                *(
                    self._cache.put(DEFAULT_QUOTA_PATH if bundle is None else f"{RESOURCE_QUOTA_ROOT}/{bundle}", quota)
                    for bundle, quota in items[start : start + _AT_ONCE]
                )
            )

    async def _get(self, path: str) -> ResourceQuota | None:
        try:
            return await self._cache.get(path)
        except MetadataError as error:
            log.warning("resource_quota_not_read", path=path, reason=str(error))
            return None
