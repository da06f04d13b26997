"""The resource quotas in the store: one for each bundle, and a default for bundles without one."""

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
_CONCURRENT_REQUESTS: Final = 100
_MAX_CACHED: Final = 2_000_000


class QuotaStore:
    """Reads quotas (expected loads of bundles) through a cache that follows changes in the store, and writes them. Only
    the leader writes. The owner of this object must close it before the store.
    """

    def __init__(self, store: MetadataStore, refresh_after_s: float) -> None:
        self._cache = MetadataCache(store, ResourceQuota, refresh_after_s=refresh_after_s, max_entries=_MAX_CACHED)

    def close(self) -> None:
        self._cache.close()

    async def default(self) -> ResourceQuota | None:
        """Return the stored default quota; None if there is none or it cannot be read."""
        return await self._get(DEFAULT_QUOTA_PATH)

    async def of(self, bundles: Iterable[str]) -> dict[str, ResourceQuota]:
        """Return the quotas of the bundles that have a readable one."""
        names = list(bundles)
        found: dict[str, ResourceQuota] = {}
        for start in range(0, len(names), _CONCURRENT_REQUESTS):
            batch = names[start : start + _CONCURRENT_REQUESTS]
            quotas = await asyncio.gather(*(self._get(f"{RESOURCE_QUOTA_ROOT}/{name}") for name in batch))
            found.update({name: quota for name, quota in zip(batch, quotas, strict=True) if quota is not None})
        return found

    async def write(self, quotas: Iterable[tuple[str | None, ResourceQuota]]) -> None:
        """Store quotas by bundle. None instead of a bundle means the default quota.

        Raises:
            NotLeadingError, MetadataError: the store did not accept a quota; the others may be stored or not.
        """
        items = list(quotas)
        for start in range(0, len(items), _CONCURRENT_REQUESTS):
            await asyncio.gather(
                *(
                    self._cache.put(DEFAULT_QUOTA_PATH if bundle is None else f"{RESOURCE_QUOTA_ROOT}/{bundle}", quota)
                    for bundle, quota in items[start : start + _CONCURRENT_REQUESTS]
                )
            )

    async def _get(self, path: str) -> ResourceQuota | None:
        try:
            return await self._cache.get(path)
        except MetadataError as error:
            log.warning("resource_quota_not_read", path=path, reason=str(error))
            return None
