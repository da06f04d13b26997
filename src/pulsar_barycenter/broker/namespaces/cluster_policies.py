"""Watches the cluster's policies for the assignment of bundles.

| policy              | where it is stored                                     | when it is read                       |
|---------------------|--------------------------------------------------------|---------------------------------------|
| isolation policies  | `/admin/clusters/<cluster>/namespaceIsolationPolicies` | at start and after each change        |
| failure domains     | `/admin/clusters/<cluster>/failureDomain/<domain>`     | at start and after each change        |
| drained brokers     | the dynamic key `barycenterDrainedBrokers`             | whenever `current` is read            |
| anti-affinity group | `/admin/local-policies/<tenant>/<namespace>`           | when a bundle is assigned or moved    |

For a namespace in an anti-affinity group, the groups of all namespaces with bundles are needed. Without groups each
namespace is read once. Isolation policies are read again for each bundle that is assigned, because a notification may
be late: a bundle that was unloaded because of a new policy must not be assigned by the former one.

A policy that cannot be read is logged. Its last value applies, or no policy if it was never read.
Source: Pulsar's `SimpleResourceAllocationPolicies`, `LoadManagerShared.refreshBrokerToFailureDomainMap`,
`getNamespaceAntiAffinityGroupAsync`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from pulsar_barycenter.broker.changes import StoreWatch
from pulsar_barycenter.broker.namespaces.boundaries import LOCAL_POLICIES_ROOT
from pulsar_barycenter.load.policies import (
    ClusterPolicies,
    FailureDomain,
    IsolationPolicies,
    domains_of_brokers,
    group_key,
)
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore, Notification

log = structlog.get_logger(__name__)

CLUSTERS_ROOT: Final = "/admin/clusters"
_REFRESH_S: Final = 30.0
"""The number of seconds between two reads of policies and domains without a notification, which may be lost."""
_GROUPS_LIFE_S: Final = 300.0
"""The age in seconds at which the anti-affinity groups are read again, even without a notification of a change."""
_CONCURRENT_READS: Final = 100
_ATTEMPTS: Final = 3


def policies_of_cluster(cluster: str) -> str:
    """Return the name of the record that says whether a cluster has migrated, below CLUSTERS_ROOT."""
    return f"{cluster}/policies"


def isolation_policies_of(cluster: str) -> str:
    """Return the path, below CLUSTERS_ROOT, of the record with a cluster's isolation policies."""
    return f"{cluster}/namespaceIsolationPolicies"


def failure_domains_of(cluster: str) -> str:
    """Return the path, below CLUSTERS_ROOT, of the folder with a cluster's failure domains."""
    return f"{cluster}/failureDomain"


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    """The field of the LocalPolicies record that contains the anti-affinity group of a namespace."""

    namespace_anti_affinity_group: str | None = None


class ClusterPolicyWatch:
    """Has the policies for the assignment of bundles in `current`: isolation policies, failure domains, anti-affinity
    groups and drained brokers. It follows their changes in the store.
    """

    def __init__(
        self, store: MetadataStore, cluster: str, *, drained: Callable[[], tuple[str, ...]] = lambda: ()
    ) -> None:
        """`drained` returns the ids of the brokers that are drained at the time of the call."""
        self._store = store
        self._drained = drained
        self._drained_read: tuple[str, ...] = ()
        self._isolation_path = f"{CLUSTERS_ROOT}/{isolation_policies_of(cluster)}"
        self._domains_path = f"{CLUSTERS_ROOT}/{failure_domains_of(cluster)}"
        self._current = ClusterPolicies()
        self._isolation_read: bytes | None = None
        self._logged: set[str] = set()
        self._groups: dict[str, str | None] = {}
        self._groups_since = 0.0
        self._forgotten = 0
        self._changes: dict[str, int] = {}
        self._stop_listening = store.add_invalidator(self._on_change)
        self._watch = StoreWatch(
            store,
            name="cluster policies",
            concerns=lambda path: path == self._isolation_path or path.startswith(self._domains_path),
            read=lambda was_notified: self._read(),
            interval_s=_REFRESH_S,
            failure="cluster_policies_not_read",
        )

    @property
    def current(self) -> ClusterPolicies:
        """The policies as they were read last; its `drained` has the ids of the brokers that are drained now."""
        drained = self._drained()
        if drained is not self._drained_read:
            self._drained_read = drained
            self._current = replace(self._current, drained=frozenset(drained))
        return self._current

    async def start(self) -> None:
        """Read the policies, and follow their changes from now on. If the store does not answer, this is logged, and
        they are read later.
        """
        await self._watch.start(self._read_first)

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        self._stop_listening()
        await self._watch.close()

    # ---- isolation policies and failure domains ----

    async def _read_first(self) -> None:
        try:
            await self._read()
        except MetadataError as error:
            log.warning("cluster_policies_not_read", reason=str(error))

    async def _read(self) -> None:
        await self._read_isolation()
        await self._read_domains()

    async def _read_isolation(self) -> None:
        record = await self._store.get(self._isolation_path)
        read = None if record is None else record.value  # a version repeats if the key is created again
        if read == self._isolation_read:
            return
        self._isolation_read = read
        isolation = IsolationPolicies()
        if record is not None:
            try:
                isolation, errors = IsolationPolicies.decode(msgspec.json.decode(record.value, type=dict[str, Any]))
            except msgspec.DecodeError as error:
                log.warning("isolation_policies_ignored", path=self._isolation_path, reason=str(error))
            else:
                for refused in errors:
                    log.warning("isolation_policy_ignored", policy=refused.policy, reason=str(refused))
        self._current = replace(self._current, isolation=isolation)

    async def _read_domains(self) -> None:
        found = {}
        for name in await self._store.children(self._domains_path):
            path = f"{self._domains_path}/{name}"
            record = await self._store.get(path)
            if record is None:
                continue
            try:
                found[name] = msgspec.json.decode(record.value, type=FailureDomain)
            except msgspec.DecodeError as error:
                self._warn_once("failure_domain_ignored", path, f"{error}")
        domains = domains_of_brokers(found)
        if domains != self._current.domains:
            self._current = replace(self._current, domains=domains)

    def _warn_once(self, event: str, path: str, reason: str) -> None:
        if f"{path} {reason}" not in self._logged:
            self._logged.add(f"{path} {reason}")
            log.warning(event, path=path, reason=reason)

    # ---- anti-affinity groups ----

    async def refresh(self, namespace: str) -> None:
        """Read those policies again from the store that count for assigning a bundle of `namespace`, so that all
        policies that were set before this call apply. If the store does not answer, this is logged, and the policies
        that were read last apply.
        """
        try:
            await self._read_isolation()
        except MetadataError as error:
            log.warning("cluster_policies_not_read", reason=str(error))
        await self.learn_groups(namespace, lambda: ())

    async def learn_groups(self, namespace: str, others: Callable[[], Iterable[str]]) -> None:
        """Read the anti-affinity group of `namespace` into `current`. If the namespace has a group, also read the
        groups of the namespaces that `others` returns. Groups that are cached are not read again; groups that cannot be
        read are left out.
        """
        now = asyncio.get_running_loop().time()
        if now - self._groups_since >= _GROUPS_LIFE_S:
            self._forget_groups()
            self._groups_since = now
        for _ in range(_ATTEMPTS):
            forgotten = self._forgotten
            await self._learn_unknown(namespace, others)
            if forgotten == self._forgotten:  # else the groups may have been dropped during the reads
                return

    async def _learn_unknown(self, namespace: str, others: Callable[[], Iterable[str]]) -> None:
        if namespace not in self._groups:
            await self._read_groups([namespace])
        if self._groups.get(namespace) is None:
            return
        unknown = [name for name in others() if name not in self._groups]
        for start in range(0, len(unknown), _CONCURRENT_READS):
            await self._read_groups(unknown[start : start + _CONCURRENT_READS])

    async def _read_groups(self, namespaces: list[str]) -> None:
        await asyncio.gather(*map(self._read_group, namespaces))
        added = {name: group for name in namespaces if (group := self._groups.get(name)) is not None}
        if added:
            self._set_groups({**self._current.groups, **added})

    async def _read_group(self, namespace: str) -> None:
        """Read and cache the anti-affinity group of a namespace. If the group changes during the read, read it again;
        if it changed during each of _ATTEMPTS reads, do not cache it. If it cannot be read, log this and do not cache
        it.
        """
        for _ in range(_ATTEMPTS):
            changes = self._changes_of(namespace)
            try:
                record = await self._store.get(f"{LOCAL_POLICIES_ROOT}{namespace}")
                stored = None if record is None else msgspec.json.decode(record.value, type=_Group)
            except (MetadataError, msgspec.DecodeError) as error:
                log.warning("anti_affinity_group_not_read", namespace=namespace, reason=str(error))
                return
            if changes == self._changes_of(namespace):  # else the value may be old already
                self._groups[namespace] = group_key(stored.namespace_anti_affinity_group) if stored else None
                return

    def _changes_of(self, namespace: str) -> tuple[int, int]:
        return self._forgotten, self._changes.get(namespace, 0)

    def _set_groups(self, groups: dict[str, str]) -> None:
        self._current = replace(self._current, groups=groups)

    def _forget_groups(self) -> None:
        self._forgotten += 1
        self._groups.clear()
        if self._current.groups:
            self._set_groups({})

    def _on_change(self, change: Notification | None) -> None:
        if change is None:
            self._forget_groups()
        elif change.path.startswith(LOCAL_POLICIES_ROOT):
            namespace = change.path.removeprefix(LOCAL_POLICIES_ROOT)
            self._changes[namespace] = self._changes.get(namespace, 0) + 1
            if self._groups.pop(namespace, None) is not None:
                self._set_groups({name: group for name, group in self._current.groups.items() if name != namespace})
