"""Unloads, splits and deletes bundles of a namespace, and hands all bundles of this broker over.

    NamespaceServiceError
    ├── BrokerNotActiveError   the destination of an unload is not registered
    ├── BundleNotEmptyError    a bundle with topics is deleted without force
    └── SplitConflictError     the namespace changed during every attempt of a split

Every call works on bundles that this broker owns; the REST layer redirects requests about other bundles to their
owners.
Source: Pulsar's `NamespaceService` (unload, split) and `OwnedBundle.handleUnloadRequest`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotFoundError, LookupFailedError
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.lookup.owner_search import Affinities
from pulsar_barycenter.broker.lookup.service import TopicDirectory
from pulsar_barycenter.broker.namespaces.boundaries import copy_boundaries_to_policies
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.split_boundaries import SPLIT_PAUSE_S, write_split
from pulsar_barycenter.broker.ownership.contract import Ownership
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.request import SplitRequest, TopicLoad, TrafficLimits
from pulsar_barycenter.metadata.coordination.epochs import EpochGate
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError
from pulsar_barycenter.metadata.store import Guard, MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidSplitError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

SPLIT_ATTEMPTS: Final = 8
"""The maximum number of attempts to split a bundle: the first one and Pulsar's seven repetitions
(`BUNDLE_SPLIT_RETRY_LIMIT`).
"""

_BUNDLES_PER_TASK: Final = 100
_MAX_TASKS: Final = 8
"""The maximum number of bundles that a broker hands over in parallel when it stops. It hands over one at a time, and
one more in parallel for each hundred bundles that it has. Few bundles are handed over one after the other, because
clients notice this least; the handover of many has to fit into `brokerShutdownTimeoutMs`.
"""


class NamespaceServiceError(Exception):
    """A request about bundles was refused."""


class BrokerNotActiveError(NamespaceServiceError):
    def __init__(self, broker_id: str, active: frozenset[str]) -> None:
        super().__init__(
            f"Not allowed unload namespace bundle to inactive destination broker: {broker_id}. "
            f"Active brokers: {', '.join(sorted(active)) or 'none'}."
        )
        self.broker_id = broker_id


class BundleNotEmptyError(NamespaceServiceError):
    def __init__(self, bundle: Bundle, topics: int) -> None:
        super().__init__(
            f"Cannot delete non empty bundle {bundle}: it has {count_of(topics, 'topic')}. Delete them, or use force."
        )
        self.bundle = bundle
        self.topics = topics


class SplitConflictError(NamespaceServiceError):
    def __init__(self, bundle: Bundle, attempts: int) -> None:
        super().__init__(f"Bundle {bundle} was not split: the namespace changed during each of {attempts} attempts.")
        self.bundle = bundle


class NamespaceService:
    """What a broker can do with the bundles that it owns: unload, hand over, delete and split them."""

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        ownership: Ownership,
        directory: TopicDirectory,
        affinities: Affinities,
        load_manager: Callable[[], LoadManager],
        epochs: EpochGate,
        *,
        topic_loads: Callable[[Bundle], Iterable[TopicLoad]],
        traffic_limits: Callable[[], TrafficLimits],
    ) -> None:
        self._store = store
        self._bundles = bundles
        self._ownership = ownership
        self._directory = directory
        self._affinities = affinities
        self._load_manager = load_manager
        self._epochs = epochs
        self._topic_loads = topic_loads
        self._traffic_limits = traffic_limits
        self._tasks = BackgroundTasks("children_not_unloaded")

    async def close(self) -> None:
        await self._tasks.close()

    async def bundles_of(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles of a namespace, from the cache; from the store if they are not cached or too old. A
        namespace without a record has one bundle, and `version` None.
        """
        return await self._bundles.get(namespace)

    async def bundles_of_now(self, namespace: NamespaceName) -> NamespaceBundles:
        """Return the bundles of a namespace, read from the store."""
        return await self._bundles.fresh(namespace)

    async def admit(self, leader_epoch: int) -> Guard:
        """Check that `leader_epoch`, the epoch of a leader that sent a command, is the present one. Return the guard
        that the writes of this command have to pass to the store, which then refuses them if a later leader exists.

        Raises:
            FormerEpochError: another leader has a later epoch.
            MetadataError: the store does not answer, or does not have this epoch yet.
        """
        return await self._epochs.admit(leader_epoch)

    # ---- unload ----

    def set_destination(self, bundle: Bundle, broker_id: str) -> None:
        """Make `broker_id` the next owner of `bundle`, if a broker acquires the bundle within AFFINITY_LIFE_S seconds.
        Call this on the leader, before the unload.

        Raises:
            BrokerNotActiveError: `broker_id` is not registered.
        """
        active = self._load_manager().available_brokers()
        if broker_id not in active:
            raise BrokerNotActiveError(broker_id, active)
        self._affinities.set(bundle, broker_id)

    async def unload_bundle(
        self,
        bundle: Bundle,
        *,
        reason: str = "admin request",
        destination: str | None = None,
        leader_epoch: int | None = None,
    ) -> int | None:
        """Unload a bundle: close its topics and release it. Return the number of closed topics, None if this broker
        does not own the bundle.

        `destination` is the id of the next owner with ownership records; with ownership locks it has no effect (see
        `set_destination`). A call during another unload of the bundle waits for the end of that unload, and returns
        None. `leader_epoch` is the epoch of the leader that sent the command; see `admit`.
        """
        if leader_epoch is not None:
            await self.admit(leader_epoch)
        return await self._ownership.release(bundle, reason=reason, destination=destination)

    async def hand_over_all(
        self, *, reason: str, max_per_second: float = 0, on_handed_over: Callable[[Bundle], None] = lambda _: None
    ) -> int:
        """Unload every bundle of this broker, in the order of the bundles' names; return the number of unloaded
        bundles.

        If `max_per_second` is 0, the rate is not limited, and several bundles are unloaded in parallel; otherwise one
        after the other. `on_handed_over` is called after each unload, with the bundle. A failure is logged, and the
        next bundle follows.
        """
        bundles = self._ownership.owned_bundles()
        tasks = 1 if max_per_second > 0 else min(1 + len(bundles) // _BUNDLES_PER_TASK, _MAX_TASKS)
        waiting = iter(bundles)
        done = 0

        async def hand_over() -> None:
            nonlocal done
            for bundle in waiting:
                try:
                    if await self._ownership.release(bundle, reason=reason) is not None:
                        done += 1
                        on_handed_over(bundle)
                except Exception:
                    log.exception("bundle_not_handed_over", bundle=str(bundle))
                if max_per_second > 0:
                    await asyncio.sleep(1 / max_per_second)

        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(hand_over(), name="hand bundles over")
        return done

    async def delete_bundle(self, bundle: Bundle, *, force: bool) -> None:
        """Release a bundle of this broker whose namespace is about to be deleted.

        Raises:
            BundleNotEmptyError: the bundle has persistent topics, loaded or not, and `force` is False.
        """
        topics = await self.topics_in(bundle)
        if topics and not force:
            raise BundleNotEmptyError(bundle, len(topics))
        await self._ownership.release(bundle, reason="bundle deleted")

    # ---- split ----

    async def split_bundle(
        self,
        bundle: Bundle,
        *,
        algorithm: str,
        positions: Sequence[int] | None = None,
        unload: bool = False,
        leader_epoch: int | None = None,
    ) -> list[Bundle]:
        """Split a bundle that this broker owns; return the new bundles, none if the algorithm found no boundary.

        Topics stay open, and clients notice nothing. With `unload` the new bundles are unloaded afterwards, in the
        background. If the namespace changes before the boundaries are written, the whole attempt is repeated, up to
        SPLIT_ATTEMPTS times in all. `leader_epoch` is the epoch of the leader that sent the command: the boundaries are
        written only if it is still the present epoch.

        Raises:
            FormerEpochError: another leader has a later epoch.
            SplitRefusedError: the algorithm is unknown, or misses an argument.
            InvalidSplitError: the bundle cannot be split at these positions, or belongs to a broker's own namespace.
            BundleNotFoundError: the bundle is not, or no longer, one of its namespace.
            BundleNotAcquiredError: this broker does not own the bundle.
            SplitConflictError: the namespace changed during every attempt.
        """
        if is_broker_bound(bundle.namespace):
            raise InvalidSplitError(
                bundle, "the namespace belongs to one broker and always has one bundle, so it cannot be split"
            )
        for attempt in range(SPLIT_ATTEMPTS):
            if attempt:
                await asyncio.sleep(SPLIT_PAUSE_S)
            try:
                guard = None if leader_epoch is None else await self.admit(leader_epoch)
                children = await self._try_split(bundle, algorithm, positions, guard)
            except BadVersionError as error:
                log.info("bundle_split_conflict", bundle=str(bundle), attempt=attempt + 1, reason=str(error))
                continue
            if children:
                await self._after_split(bundle, children, unload=unload)
            return children
        raise SplitConflictError(bundle, SPLIT_ATTEMPTS)

    async def boundaries_of(self, bundle: Bundle, algorithm: str) -> Sequence[int]:
        """Return the hashes at which an algorithm would split a bundle that this broker owns; empty if it would not
        split the bundle.

        Raises:
            SplitRefusedError: the algorithm is unknown, or misses an argument.
        """
        return split_algorithm(algorithm)(await self._split_request(bundle, ()))

    async def _split_request(self, bundle: Bundle, positions: Sequence[int]) -> SplitRequest:
        hashes = tuple(topic.hash32 for topic in await self.topics_in(bundle))
        return SplitRequest(
            bundle.range, hashes, tuple(positions), tuple(self._topic_loads(bundle)), self._traffic_limits()
        )

    async def _try_split(
        self, bundle: Bundle, algorithm: str, positions: Sequence[int] | None, guard: Guard | None
    ) -> list[Bundle]:
        before = await self._bundles.fresh(bundle.namespace)
        if before.find_hash(bundle.range.lower) != bundle:
            raise BundleNotFoundError(bundle)
        cuts = split_algorithm(algorithm)(await self._split_request(bundle, positions or ()))
        if not cuts:
            log.info("bundle_not_split", bundle=str(bundle), algorithm=algorithm, reason="no boundary found")
            return []
        after, children = before.split(bundle, cuts)
        await self._ownership.split(
            bundle,
            children,
            lambda check: write_split(self._store, self._bundles, before, after, guard, check=check),
        )
        log.info("bundle_split", bundle=str(bundle), children=[str(child) for child in children], algorithm=algorithm)
        return children

    async def _after_split(self, parent: Bundle, children: list[Bundle], *, unload: bool) -> None:
        """Do what follows a split: copy the boundaries to the namespace's policies, publish this broker's load, and,
        with `unload`, unload the new bundles in the background.

        If a step fails, this is logged and the other steps are done. The next copy or load report, by this broker or
        another one, has the same effect.
        """
        try:
            await copy_boundaries_to_policies(self._store, parent.namespace)
        except MetadataError as error:
            log.warning("bundles_not_copied_to_policies", namespace=str(parent.namespace), reason=str(error))
        try:
            await self._load_manager().write_report(force=True)
        except Exception:
            log.exception("load_report_not_written", after="split")
        if unload:
            self._tasks.keep(kept_task(self._unload_children(children), f"unload children of {parent}"))

    async def _unload_children(self, children: list[Bundle]) -> None:
        for child in children:
            try:
                await self._ownership.release(child, reason="unload after split")
            except (LookupFailedError, MetadataError) as error:
                log.warning("bundle_not_unloaded", bundle=str(child), after="split", reason=str(error))

    async def topics_in(self, bundle: Bundle) -> list[TopicName]:
        """Return the persistent topics of a bundle, loaded or not."""
        names = await self._directory.topics_of_namespace(bundle.namespace, "PERSISTENT")
        return [topic for topic in map(TopicName.parse, names) if bundle.range.contains(topic.hash32)]
