"""The topics that this broker has loaded: loading once for all who ask, closing by bundle, rates and counts.

A topic is loaded under the term of ownership of its bundle and closed before that term is released. A load that
finishes after its term has ended is undone at once, so `close_bundle` waits for loads under way and then nothing
of the bundle is left. Source: the topic part of Pulsar's `BrokerService`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.compaction.compactor import KeepsEarlier
from pulsar_barycenter.broker.compaction.topic_compactions import BrokerCompactions
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.errors import NotAllowedError, TopicFencedError, TopicNotFoundError
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.topic_policies import TopicPolicies
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle, ServingAuthority
from pulsar_barycenter.broker.topics.departures import Departures
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.preparations import Preparations
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.stats import bundle_stats, topic_loads, topic_stats
from pulsar_barycenter.broker.topics.topic import BrokerCounters, Topic
from pulsar_barycenter.broker.topics.topic_settings import TopicSettings, ledger_settings
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import LedgerDeletedError, LedgerFencedError, LedgerNotFoundError
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger, managed_ledger_path
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

STRATEGIC_THRESHOLD_BYTES: Final = 5 << 20
"""What Pulsar sets for its ownership channel."""


class TopicRegistry:
    """All methods belong to the broker's event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        authority: ServingAuthority,
        policies: TopicPolicies,
        compaction_strategies: Mapping[TopicName, KeepsEarlier] | None = None,
    ) -> None:
        """`compaction_strategies` are for topics whose newest message of a key is not always the valid one."""
        self._config = config
        self._env = env
        self._authority = authority
        self._policies = policies
        self._settings = TopicSettings.of(config)
        self._ledger_settings = ledger_settings(config)
        self._load_limit = asyncio.Semaphore(config.max_concurrent_topic_load_request)
        self._topics: dict[TopicName, Topic] = {}
        self._by_bundle: dict[Bundle, dict[TopicName, Topic]] = {}
        self._loads: dict[TopicName, asyncio.Task[Topic]] = {}
        self._preparations = Preparations(self._open_ahead)
        self._departures = Departures(self._forget)
        self._counters = BrokerCounters()
        self._compactions = BrokerCompactions(
            env.clock,
            retain_null_key=config.topic_compaction_retain_null_key,
            strategies=dict(compaction_strategies or {}),
        )
        self._rates_at_ms = env.clock.now_ms()
        self.on_change_seen: Callable[[TopicName, PartitionedChange], None] = lambda _topic, _change: None
        """Called when a client finds that a change of its partitioned topic is still under way."""

    # ---- what topics ask (TopicHost) ----

    @property
    def clock(self) -> Clock:
        return self._env.clock

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @property
    def counters(self) -> BrokerCounters:
        """Messages and bytes in and out of this broker since it started."""
        return self._counters

    @property
    def compactions(self) -> BrokerCompactions:
        return self._compactions

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over changed settings; ledgers that are open keep theirs, but for what to skip."""
        self._config = config
        self._settings = TopicSettings.of(config)
        self._ledger_settings = ledger_settings(config)
        skip = config.auto_skip_non_recoverable_data
        for topic in self._topics.values():
            if isinstance(topic, PersistentTopic):
                topic.ledger.settings = replace(topic.ledger.settings, skip_non_recoverable=skip)

    @property
    def policies(self) -> TopicPolicies:
        return self._policies

    def ledger_fenced(self, topic: Topic, detail: str) -> None:
        """A later owner writes the ledger of `topic`: the term is over, whatever the lock says."""
        self._authority.lost(topic.owned, f"ledger of {topic.name} fenced: {detail}")
        self._departures.close(topic, "ledger fenced")

    # ---- loading ----

    def get_loaded(self, topic: TopicName) -> Topic | None:
        """Return the topic if it is loaded and open."""
        found = self._topics.get(topic)
        return found if found is not None and found.state is TopicState.OPEN else None

    def loaded(self) -> Collection[Topic]:
        """The topics in memory, those that are closing or in transfer included."""
        return self._topics.values()

    async def get_or_create(self, topic: TopicName, *, create: bool = True) -> Topic:
        """Return the topic, loading it if need be; one load serves all who ask meanwhile.

        With `create` a topic that does not exist is created, if the namespace's policies allow it.

        Raises:
            NotServedError: the bundle is not owned and active here.
            TopicNotFoundError: it does not exist and is not created.
            NotAllowedError: topics of this kind are not served here.
            LedgerError, MetadataError: it could not be read.
        """
        while True:
            owned = await self._authority.require_served(topic)
            found = self._topics.get(topic)
            if found is not None and found.state is TopicState.OPEN:
                if found.change is not None:
                    await self._look_at_change(found)
                return found
            if found is not None:
                await self._departures.wait(found)
                continue
            load = self._loads.get(topic)
            mine = load is None
            if load is None:
                load = self._loads[topic] = asyncio.get_running_loop().create_task(
                    self._load(topic, owned, create=create), name=f"load-topic:{topic}"
                )
                load.add_done_callback(_observe)
            try:
                # Whoever asked first may give up; the others still want it.
                return await asyncio.shield(load)
            except TopicNotFoundError:
                if mine or not create:
                    raise

    async def _look_at_change(self, topic: Topic) -> None:
        """Let clients in again if the change that kept them out is over."""
        before, now = topic.change, await self._policies.pending_change(topic.name)
        if topic.change is before:
            topic.change = now
        if now is not None:
            self.on_change_seen(topic.name, now)

    async def create(self, topic: TopicName) -> Topic:
        """Create and load a topic whatever the policies say about creation by use."""
        owned = await self._authority.require_served(topic)
        found = self._topics.get(topic)
        if found is not None and found.state is TopicState.OPEN:
            return found
        if found is not None:
            await self._departures.wait(found)
            return await self.create(topic)
        load = self._loads.get(topic)
        if load is not None:
            await asyncio.wait([load])
            return await self.create(topic)
        load = self._loads[topic] = asyncio.get_running_loop().create_task(
            self._load(topic, owned, create=True, ask_policies=False), name=f"create-topic:{topic}"
        )
        load.add_done_callback(_observe)
        return await asyncio.shield(load)

    def prepare(self, bundle: Bundle, topics: Iterable[str], epoch: int, *, are_closed: bool) -> None:
        """Open topics in the background, ahead of this broker's term of that number: see `preparations`."""
        self._preparations.begin(bundle, topics, epoch, self.clock.now_ms(), are_closed=are_closed)

    async def _open_ahead(self, name: TopicName, term: OwnedBundle, closed: asyncio.Event) -> PersistentTopic:
        async with asyncio.timeout(self._config.topic_load_timeout_seconds), self._load_limit:
            return await self._open_persistent(name, term, create=False, ask_policies=False, closed=closed)

    async def _load(self, name: TopicName, owned: OwnedBundle, *, create: bool, ask_policies: bool = True) -> Topic:
        change = None
        try:
            with self._env.instruments.loading_topic():
                async with asyncio.timeout(self._config.topic_load_timeout_seconds):
                    change = await self._policies.pending_change(name)
                    topic: Topic | None = await self._preparations.take(name, owned.epoch)
                    may_make = create and not (change is not None and change.blocks_clients)
                    topic = topic or await self._opened(name, owned, create=may_make, ask_policies=ask_policies)
                topic.change = change
                return await self._registered(topic)
        except TimeoutError:
            raise TopicFencedError(name, "it took too long to load") from None
        except TopicNotFoundError:
            if change is not None and create:
                self.on_change_seen(name, change)
                raise TopicFencedError(name, f"its partitioned topic is under change: {change}") from None
            raise
        finally:
            del self._loads[name]

    async def _opened(self, name: TopicName, owned: OwnedBundle, *, create: bool, ask_policies: bool) -> Topic:
        if not name.is_persistent:
            return await self._make_non_persistent(name, owned, create=create, ask_policies=ask_policies)
        async with self._load_limit:
            return await self._open_persistent(name, owned, create=create, ask_policies=ask_policies)

    async def _make_non_persistent(
        self, name: TopicName, owned: OwnedBundle, *, create: bool, ask_policies: bool
    ) -> Topic:
        if not self._config.enable_non_persistent_topics:
            raise NotAllowedError(f"Topic {name}: non-persistent topics are not served by this broker")
        # A partition exists as long as the record of its topic, in memory or not.
        if not (create and not ask_policies) and not (
            (create or name.is_partition) and await self._policies.may_create(name)
        ):
            raise TopicNotFoundError(name)
        return NonPersistentTopic(name, owned, self)

    async def compaction_threshold(self, topic: TopicName) -> int:
        """Return how many bytes that are not compacted have a topic compacted; 0: none has it."""
        if topic in self._compactions.strategies:
            return STRATEGIC_THRESHOLD_BYTES
        return await self._policies.compaction_threshold(topic.namespace)

    async def _open_persistent(
        self,
        name: TopicName,
        owned: OwnedBundle,
        *,
        create: bool,
        ask_policies: bool,
        closed: asyncio.Event | None = None,
    ) -> PersistentTopic:
        if not self._config.enable_persistent_topics:
            raise NotAllowedError(f"Topic {name}: persistent topics are not served by this broker")
        if create and ask_policies and not await self._policies.may_create(name):
            create = False
        topic = PersistentTopic(name, owned, self)
        try:
            ledger = await ManagedLedger.open(
                self._env.store,
                self._env.ledgers,
                name,
                epoch=owned.epoch,
                clock=self._env.clock,
                settings=self._ledger_settings,
                create=create,
                closed=closed,
                on_durable=topic.write_durable,  # type: ignore[arg-type]
                on_failed=topic.write_failed,  # type: ignore[arg-type]
                on_fenced=topic.fenced,
            )
        except LedgerNotFoundError as error:
            if create or await self._env.store.exists(managed_ledger_path(name)):
                raise
            raise TopicNotFoundError(name) from error
        except LedgerFencedError as error:
            self._authority.lost(owned, f"opening {name}: {error}")
            is_gone = isinstance(error, LedgerDeletedError)
            raise NotServedError(name, "it was deleted" if is_gone else "a later owner has it") from error
        try:
            await topic.opened(ledger, deduplicate=await self._policies.deduplicates(name.namespace))
            if await self.compaction_threshold(name):
                await topic.prepare_compaction()
        except BaseException:
            await ledger.close()
            raise
        return topic

    async def _registered(self, topic: Topic) -> Topic:
        """Make a loaded topic known, unless its term ended meanwhile."""
        owned = self._authority.served(topic.name)
        if owned is None:
            await topic.close("its bundle left while it was loaded")
            raise NotServedError(topic.name, "its bundle left while the topic was loaded")
        topic.owned = owned  # a split meanwhile gives the child's term
        self._topics[topic.name] = topic
        self._by_bundle.setdefault(owned.bundle, {})[topic.name] = topic
        log.debug("topic_loaded", topic=str(topic.name), bundle=str(owned.bundle), epoch=owned.epoch)
        return topic

    # ---- closing ----

    def _forget(self, topic: Topic) -> None:
        if self._topics.get(topic.name) is topic:
            del self._topics[topic.name]
        bundle = topic.owned.bundle
        members = self._by_bundle.get(bundle, {})
        if members.get(topic.name) is topic:
            del members[topic.name]
            if not members:
                del self._by_bundle[bundle]

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int:
        """Close every topic of a bundle and return how many there were.

        For each topic: nothing attaches any more and late SENDs are dropped; entries already written become durable
        and get their receipts; producers and consumers are told to look the topic up again; the ledger closes.
        Loads under way are waited for. The caller flips the term inactive before, and bounds the time.
        """
        closed = await self._leave(bundle, lambda topic: self._departures.close(topic, reason))
        log.debug("bundle_topics_closed", bundle=str(bundle), topics=closed, reason=reason)
        return closed

    async def _leave(self, bundle: Bundle, start: Callable[[Topic], asyncio.Task[None]]) -> int:
        """Wait for what `start` begins with each topic of a bundle, and for loads; return the number of topics."""
        loads = [load for name, load in self._loads.items() if bundle.contains(name)]
        topics = [topic for topic in self._topics.values() if _is_of(topic, bundle)]
        leaving = [*map(start, topics), *self._preparations.drop(bundle)]
        if loads or leaving:
            await asyncio.wait([*loads, *leaving])
        # A load that began before the term ended and finished just now.
        late = [topic for topic in self._topics.values() if topic not in topics and _is_of(topic, bundle)]
        if late:
            await asyncio.wait([start(topic) for topic in late])
        return len(topics) + len(late)

    # ---- transfer to another broker, in two phases (`states`) ----

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        """Stop every topic of a bundle and close its ledger, while its clients stay; return how many topics there were.

        For each topic: nothing attaches any more; SENDs, ACKs, FLOWs and redelivery requests are ignored; dispatch
        stops; entries already written become durable and get their receipts; cursors and the deduplication's snapshot
        are stored; the ledger closes, so that the next owner can open it. Loads under way are waited for. A topic that
        is being closed is waited for. The caller flips the term inactive before, and bounds the time; out of time,
        all goes on. `finish_transfer` must follow, or any other close. Idempotent.
        """
        topics = await self._leave(bundle, self._departures.transfer)
        log.info("bundle_transfer_begun", bundle=str(bundle), topics=topics, reason=reason)
        return topics

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        """Send the clients of a bundle to its next owner and forget its topics; return how many topics there were.

        Clients are told at once, without waiting for a first phase that is not done; then that is waited for. Without
        an `owner`, or where its address for a client is not known, that client looks the topic up. Topics that a later
        term of this broker has opened are left alone, so it may come late, and again.
        """
        topics = [topic for topic in self._topics.values() if _is_of(topic, bundle) and not topic.is_served]
        closings = [self._departures.close(topic, reason, owner) for topic in topics]
        if closings:
            await asyncio.wait(closings)
        to = owner.broker_id if owner is not None else None
        log.info("bundle_transfer_finished", bundle=str(bundle), topics=len(topics), owner=to, reason=reason)
        return len(topics)

    async def close_topic(self, topic: TopicName, *, reason: str = "unloaded by request") -> bool:
        """Close one topic; its clients come back and it is loaded anew. False if it was not loaded."""
        found = self._topics.get(topic)
        if found is None:
            return False
        await asyncio.wait([self._departures.close(found, reason)])
        return True

    async def close(self, *, reason: str = "broker stops") -> None:
        """Close all topics, and stop loads."""
        for load in list(self._loads.values()):
            load.cancel()
        waiting: list[asyncio.Task[Any]] = [*self._loads.values(), *self._preparations.close()]
        waiting += [self._departures.close(topic, reason) for topic in list(self._topics.values())]
        if waiting:
            await asyncio.wait(waiting)

    async def delete_topic(self, topic: TopicName, *, force: bool, only_unused: bool = False) -> None:
        """Delete a topic with all that is stored of it, its subscriptions too unless `only_unused`.

        Raises:
            TopicNotFoundError, NotServedError
            TopicBusyError: clients are there and it is not forced.
            LedgerError: it could not be deleted.
        """
        await self.delete_loaded(await self.get_or_create(topic, create=False), force=force, only_unused=only_unused)

    async def delete_loaded(self, topic: Topic, *, force: bool, only_unused: bool = False) -> None:
        """Delete a loaded topic as `delete_topic` does."""
        topic.check_deletable(force=force, only_unused=only_unused)
        await asyncio.shield(self._departures.delete(topic, force=force, only_unused=only_unused))

    async def apply_policies(self) -> int:
        """Close the topics whose namespace has switched deduplication since they were loaded; return how many.

        Their clients come back, and what was stored meanwhile is read when the topic is loaded anew.
        """
        loaded = [topic for topic in self._topics.values() if isinstance(topic, PersistentTopic)]
        wanted = {name: await self._policies.deduplicates(name) for name in {topic.name.namespace for topic in loaded}}
        switched = [topic for topic in loaded if topic.deduplicates is not wanted[topic.name.namespace]]
        closings = [
            self._departures.close(topic, "deduplication was switched")
            for topic in switched
            if topic.state is TopicState.OPEN
        ]
        if closings:
            await asyncio.wait(closings)
        return len(closings)

    def refresh_bundles(self) -> int:
        """After a split: put each topic under the term that its bundle has now; return how many moved.

        Topics stay open. One whose bundle is not served here any more is closed.
        """
        moved = 0
        for topic in list(self._topics.values()):
            owned = self._authority.served(topic.name)
            if owned is topic.owned or topic.state is not TopicState.OPEN:
                continue
            if owned is None:
                if not topic.owned.active:
                    self._departures.close(topic, "its bundle is not served here")
                continue
            self._forget(topic)
            topic.owned = owned
            self._topics[topic.name] = topic
            self._by_bundle.setdefault(owned.bundle, {})[topic.name] = topic
            moved += 1
        return moved

    # ---- figures ----

    def update_rates(self, now_ms: int) -> None:
        """Compute all rates anew, over the time since the last call; the statistics task calls this."""
        seconds = (now_ms - self._rates_at_ms) / 1000
        if seconds <= 0:
            return
        self._rates_at_ms = now_ms
        for topic in self._topics.values():
            topic.update_rates(seconds)

    def bundle_stats(self) -> dict[str, NamespaceBundleStats]:
        """Return the sums over the topics of each bundle that has any, by bundle name; rates of the last update."""
        return {str(bundle): bundle_stats(topics.values()) for bundle, topics in self._by_bundle.items()}

    def topic_loads(self, bundle: Bundle) -> list[TopicLoad]:
        """What each topic of a bundle carries that is in memory here; rates of the last update."""
        return topic_loads(self._by_bundle.get(bundle, {}).values())

    def topics_of_bundle(self, bundle: Bundle) -> list[TopicName]:
        """The topics of a bundle that are in memory here."""
        return list(self._by_bundle.get(bundle, ()))

    def written_topics(self, bundle: Bundle) -> list[str]:
        """The names of the persistent topics of a bundle that producers are attached to, the busiest first."""
        members = self._by_bundle.get(bundle, {}).values()
        written = [topic for topic in members if topic.producers and topic.name.is_persistent]
        return [str(topic.name) for topic in sorted(written, key=lambda topic: -topic.in_rates.rate)]

    def topic_stats(self, topic: Topic, *, owner_broker: str = "") -> dict[str, Any]:
        """Return the statistics of a loaded topic as the admin API shows them (reference 5.4)."""
        return topic_stats(topic, owner_broker=owner_broker)


def _is_of(topic: Topic, bundle: Bundle) -> bool:
    """Tell whether a topic is served for a bundle: an internal topic is the leader's, whoever owns its namespace."""
    served_for = topic.owned.bundle
    return served_for == bundle or (served_for.namespace == bundle.namespace and bundle.contains(topic.name))


def _observe(task: asyncio.Task[Any]) -> None:
    """A load that nobody waits for any more may fail without a word."""
    if not task.cancelled():
        task.exception()
