"""Loads the topics of this broker, closes them bundle by bundle, and sums up their stats.

A topic is loaded under a term of ownership of its bundle and closed before that term is released. One load serves all
requests for the topic. A load that finishes after its term has ended closes the topic again at once. So when
`close_bundle` has waited for the running loads, no topic of the bundle is left.
Source: the topic part of Pulsar's `BrokerService`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.compaction.compactor import KeepsEarlier
from pulsar_barycenter.broker.compaction.topic_compactions import BrokerCompactions
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.errors import NotAllowedError, TopicFencedError, TopicNotFoundError
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.topic_policies import TopicPolicies
from pulsar_barycenter.broker.namespaces.topic_rules import GroupRate, TopicRules
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle, ServingAuthority
from pulsar_barycenter.broker.schemas.schema_registry import SchemaRegistry
from pulsar_barycenter.broker.topics.departures import Departures
from pulsar_barycenter.broker.topics.group_throttles import GroupThrottles
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.preparations import Preparations
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.stats import bundle_stats, topic_loads, topic_stats
from pulsar_barycenter.broker.topics.topic import BrokerCounters, Topic
from pulsar_barycenter.broker.topics.topic_settings import TopicSettings, ledger_settings
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import (
    ForeignTopicError,
    LedgerDeletedError,
    LedgerFencedError,
    LedgerNotFoundError,
)
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger, managed_ledger_path
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

STRATEGIC_THRESHOLD_BYTES: Final = 5 << 20
"""The compaction threshold in bytes of topics with a compaction strategy; Pulsar has this value for its ownership
channel.
"""


SHARED_SETTINGS: Final = 1_000
"""The maximum number of `TopicSettings` that are cached, to be shared by topics with the same rules."""
_SHORTEST_PART: Final = 6
"""The rates of a new topic are over at least one sixth of the interval: the interval divided by this number."""


class TopicRegistry:
    """The loaded topics of this broker. All methods run on the broker's event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        authority: ServingAuthority,
        policies: TopicPolicies,
        compaction_strategies: Mapping[TopicName, KeepsEarlier] | None = None,
    ) -> None:
        """`authority` returns the terms in which this broker serves bundles. `compaction_strategies` has a function for
        each topic in which compaction must not always keep the newest message of a key.
        """
        self._config = config
        self._env = env
        self._authority = authority
        self._policies = policies
        self._settings = TopicSettings.of(config)
        self._under_rules: Recent[TopicRules, TopicSettings] = Recent(SHARED_SETTINGS)
        self._ledger_settings = ledger_settings(config)
        self._load_limit = asyncio.Semaphore(config.max_concurrent_topic_load_request)
        self._topics: dict[TopicName, Topic] = {}
        self._by_bundle: dict[Bundle, dict[TopicName, Topic]] = {}
        self._loads: dict[TopicName, asyncio.Task[Topic]] = {}
        self._preparations = Preparations(self._open_ahead)
        self.schemas = SchemaRegistry(env.store, env.clock)
        self._departures = Departures(self._forget, self._delete_records)
        self._counters = BrokerCounters()
        self._group_throttles = GroupThrottles()
        self._compactions = BrokerCompactions(
            env.clock,
            retain_null_key=config.topic_compaction_retain_null_key,
            strategies=dict(compaction_strategies or {}),
        )
        self.rates_at_ms = env.clock.now_ms()
        """When the rates were computed last, in ms since 1970."""
        self.on_change_seen: Callable[[TopicName, PartitionedChange], None] = lambda _topic, _change: None
        """Called with a partition and the change when a client asks for the partition while its partitioned topic is
        being changed.
        """

    # ---- what topics need (TopicHost) ----

    @property
    def clock(self) -> Clock:
        return self._env.clock

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    def settings_under(self, rules: TopicRules) -> TopicSettings:
        """Return the settings of topics with these rules. Topics with the same rules share one object."""
        found = self._under_rules.get(rules)
        if found is None:
            found = self._settings.under(rules)
            self._under_rules.put(rules, found)
        return found

    def throttle_of(self, group: GroupRate) -> Throttle | None:
        """Return the throttle that all topics of a resource group on this broker share, None without a limit."""
        return self._group_throttles.of(group)

    @property
    def counters(self) -> BrokerCounters:
        """The counters of messages and bytes that this broker received and sent since it started."""
        return self._counters

    @property
    def compactions(self) -> BrokerCompactions:
        return self._compactions

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply changed settings. Ledgers that are open keep their present settings, except
        `autoSkipNonRecoverableData`, which changes at once. The settings of loaded topics change at the next
        `apply_policies`.
        """
        self._config = config
        self._settings = TopicSettings.of(config)
        self._under_rules.clear()
        self._ledger_settings = ledger_settings(config)
        skip = config.auto_skip_non_recoverable_data
        for topic in self._topics.values():
            if isinstance(topic, PersistentTopic):
                topic.ledger.settings = replace(topic.ledger.settings, skip_non_recoverable=skip)

    @property
    def policies(self) -> TopicPolicies:
        return self._policies

    def ledger_fenced(self, topic: Topic, detail: str) -> None:
        """Called by a topic when a later owner has fenced its ledger. End the term of the topic's bundle, and start to
        close the topic.

        The fence proves that there is a later owner, even if this broker still seems to have the ownership lock.
        """
        self._authority.lost(topic.owned, f"ledger of {topic.name} fenced: {detail}")
        self._departures.close(topic, "ledger fenced")

    # ---- loading ----

    def get_loaded(self, topic: TopicName) -> Topic | None:
        """Return the topic if it is loaded and open, else None."""
        found = self._topics.get(topic)
        return found if found is not None and found.state is TopicState.OPEN else None

    def loaded(self) -> Collection[Topic]:
        """The topics in memory, including those that are closing or in transfer."""
        return self._topics.values()

    async def get_or_create(self, topic: TopicName, *, create: bool = True) -> Topic:
        """Return the topic; load it if it is not in memory. Requests for one topic share one load.

        With `create`, a topic that does not exist is created if the policies of its namespace allow it.

        Raises:
            NotServedError: this broker does not own the bundle, or does not serve it now.
            TopicNotFoundError: the topic does not exist and is not created.
            TopicFencedError: the topic was not loaded within `topicLoadTimeoutSeconds`, or it does not exist and a
                change of its partitioned topic is in progress.
            NotAllowedError: this broker does not serve topics of this kind.
            LedgerError, MetadataError: the topic could not be read.
        """
        while True:
            owned = await self._authority.require_served(topic)
            found = self._topics.get(topic)
            if found is not None and found.state is TopicState.OPEN:
                if found.change is not None:
                    await self._refresh_change(found)
                return found
            if found is not None:
                await self._departures.wait(found)
                continue
            load = self._loads.get(topic)
            is_first = load is None
            if load is None:
                load = self._loads[topic] = asyncio.get_running_loop().create_task(
                    self._load(topic, owned, create=create), name=f"load-topic:{topic}"
                )
                load.add_done_callback(_observe)
            try:
                # The client that started the load may disconnect; others still wait for it.
                return await asyncio.shield(load)
            except TopicNotFoundError:
                if is_first or not create:
                    raise

    async def _refresh_change(self, topic: Topic) -> None:
        """Read again whether the topic's partitioned topic is being changed. If the change has ended, clients may
        attach to `topic` from now on. If it has not, call `on_change_seen`, so that a change that its broker abandoned
        is completed.
        """
        before, now = topic.change, await self._policies.pending_change(topic.name)
        if topic.change is before:
            topic.change = now
        if now is not None:
            self.on_change_seen(topic.name, now)

    async def create(self, topic: TopicName) -> Topic:
        """Return the topic; load it if it is not in memory, and create it if it does not exist. Unlike `get_or_create`,
        this creates it even if the policies forbid that clients create topics. Raises the errors of `get_or_create`.
        """
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
        """Start to open topics of `bundle` in the background, before this broker's term with `epoch` as its owner
        begins. `are_closed` is False while the former owner still has them open; see `Preparations.begin`.
        """
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
                    await self._policies.known(name)
                    topic: Topic | None = await self._preparations.take(name, owned.epoch)
                    may_make = create and not (change is not None and change.blocks_clients)
                    topic = topic or await self._opened(name, owned, create=may_make, ask_policies=ask_policies)
                topic.change = change
                await self._let_follow(topic)
                return await self._registered(topic)
        except TimeoutError:
            raise TopicFencedError(name, "the topic was not loaded within topicLoadTimeoutSeconds") from None
        except TopicNotFoundError:
            if change is not None and create:
                self.on_change_seen(name, change)
                raise TopicFencedError(name, f"a change of the partitioned topic is in progress: {change}") from None
            raise
        finally:
            del self._loads[name]

    async def _let_follow(self, topic: Topic) -> None:
        """Apply the present policies to a topic that is being loaded. If they cannot be read, close the topic and raise
        the error.
        """
        try:
            topic.follow(await self._policies.rules(topic.name))
        except BaseException:
            await topic.close("the topic's policies could not be read")
            raise

    async def _opened(self, name: TopicName, owned: OwnedBundle, *, create: bool, ask_policies: bool) -> Topic:
        if not name.is_persistent:
            return await self._make_non_persistent(name, owned, create=create, ask_policies=ask_policies)
        async with self._load_limit:
            return await self._open_persistent(name, owned, create=create, ask_policies=ask_policies)

    async def _make_non_persistent(
        self, name: TopicName, owned: OwnedBundle, *, create: bool, ask_policies: bool
    ) -> Topic:
        if not self._config.enable_non_persistent_topics:
            raise NotAllowedError(
                f"Topic {name}: this broker serves no non-persistent topics, because enableNonPersistentTopics is false"
            )
        # A partition exists while the record of its partitioned topic exists, whether it is in memory or not.
        if not (create and not ask_policies) and not (
            (create or name.is_partition) and await self._policies.may_create(name)
        ):
            raise TopicNotFoundError(name)
        return NonPersistentTopic(name, owned, self)

    async def compaction_threshold(self, topic: TopicName) -> int:
        """Return the number of uncompacted bytes above which a topic is compacted automatically; 0: never
        automatically.
        """
        if self._env.records.compaction_refusal:
            return 0
        if topic in self._compactions.strategies:
            return STRATEGIC_THRESHOLD_BYTES
        return await self._policies.compaction_threshold(topic)

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
            raise NotAllowedError(
                f"Topic {name}: this broker serves no persistent topics, because enablePersistentTopics is false"
            )
        if create and ask_policies and not await self._policies.may_create(name):
            create = False
        topic = PersistentTopic(name, owned, self)
        rules = await self._policies.rules(name)
        topic.settings = self.settings_under(rules)
        of_ledger = replace(
            self._ledger_settings, retention=rules.storage.retention, mark_delete_per_second=rules.mark_delete_rate
        )
        bookies = await self._policies.bookies(name)
        try:
            ledger = await ManagedLedger.open(
                self._env.store,
                self._env.ledgers.on_groups(bookies.primary, bookies.secondary),
                name,
                epoch=owned.epoch,
                clock=self._env.clock,
                settings=of_ledger,
                form=self._env.records,
                create=create,
                closed=closed,
                on_durable=topic.write_durable,
                on_failed=topic.write_failed,
                on_fenced=topic.fenced,
            )
        except ForeignTopicError as error:
            raise NotAllowedError(str(error)) from error
        except LedgerNotFoundError as error:
            if create or await self._env.store.exists(managed_ledger_path(name)):
                raise
            raise TopicNotFoundError(name) from error
        except LedgerFencedError as error:
            self._authority.lost(owned, f"opening {name}: {error}")
            is_deleted = isinstance(error, LedgerDeletedError)
            raise NotServedError(
                name, "the topic was deleted" if is_deleted else "a later owner has the topic"
            ) from error
        try:
            await topic.opened(ledger, deduplicate=await self._policies.deduplicates(name))
            if await self.compaction_threshold(name):
                await topic.prepare_compaction()
        except BaseException:
            await ledger.close()
            raise
        return topic

    async def _registered(self, topic: Topic) -> Topic:
        """Add a topic that was just loaded to the registry, and return it.

        Raises:
            NotServedError: this broker stopped serving the topic's bundle during the load; the topic is closed.
        """
        owned = self._authority.served(topic.name)
        if owned is None:
            await topic.close("the bundle was released while the topic was loaded")
            raise NotServedError(topic.name, "the topic's bundle was released while the topic was being loaded")
        topic.owned = owned  # after a split during the load this is the term of the new bundle
        self._topics[topic.name] = topic
        self._by_bundle.setdefault(owned.bundle, {})[topic.name] = topic
        log.debug("topic_loaded", topic=str(topic.name), bundle=str(owned.bundle), epoch=owned.epoch)
        return topic

    # ---- closing ----

    async def _delete_records(self, topic: TopicName) -> None:
        """Delete the schemas and the own policies of a deleted topic. Partitions share those of their partitioned
        topic, which keeps them until it is deleted. A non-persistent topic keeps its schemas and policies, because it
        is deleted each time when no client uses it.

        Source: Pulsar's `BrokerService.deleteSchema`, `BrokerService.deleteTopicAsync`.
        """
        if topic.is_persistent and not topic.is_partition:
            try:
                await self.schemas.delete(topic, force=True)
            except MetadataError as error:
                log.warning("schemas_not_deleted", topic=str(topic), reason=str(error))
            await self._policies.deleted(topic)

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
        """Close every topic of a bundle, and wait until all are closed; return the number of topics.

        For each topic: no client attaches any more, and late SENDs are dropped. Entries already written become durable
        and get their receipts. Producers and consumers are disconnected, so that they look the topic up again. Then the
        ledger is closed. This waits for running loads. The caller makes the term inactive first, and limits the time.
        """
        closed = await self._leave(bundle, lambda topic: self._departures.close(topic, reason))
        log.debug("bundle_topics_closed", bundle=str(bundle), topics=closed, reason=reason)
        return closed

    async def _leave(self, bundle: Bundle, start: Callable[[Topic], asyncio.Task[None]]) -> int:
        """Call `start` for each topic of a bundle. Wait for the tasks that `start` returns, and for topics that are
        being loaded, for which `start` is called after their load. Prepared topics of the bundle are closed.

        Return the number of topics.
        """
        loads = [load for name, load in self._loads.items() if bundle.contains(name)]
        topics = [topic for topic in self._topics.values() if _is_of(topic, bundle)]
        leaving = [*map(start, topics), *self._preparations.drop(bundle)]
        if loads or leaving:
            await asyncio.wait([*loads, *leaving])
        # Topics whose load began before the term ended and finished just now.
        late = [topic for topic in self._topics.values() if topic not in topics and _is_of(topic, bundle)]
        if late:
            await asyncio.wait([start(topic) for topic in late])
        return len(topics) + len(late)

    # ---- transfer to another broker, in two phases (`states`) ----

    async def begin_transfer(self, bundle: Bundle, *, reason: str) -> int:
        """Begin a transfer of a bundle: stop each of its topics and close its ledger, while its clients stay. Wait
        until this is done, and return the number of topics.

        For each topic: no client attaches any more. SENDs, ACKs, FLOWs and redelivery requests are ignored, and
        dispatch stops. Entries already written become durable and get their receipts. Cursors and the snapshot of
        deduplication are stored. The ledger is closed, so that the next owner can open it. Topics that are being loaded
        or closed are waited for.

        The caller makes the term inactive first, and limits the time; if it stops waiting, the tasks continue.
        Afterwards the caller must call `finish_transfer`, or close the topics. Idempotent.
        """
        topics = await self._leave(bundle, self._departures.transfer)
        log.info("bundle_transfer_begun", bundle=str(bundle), topics=topics, reason=reason)
        return topics

    async def finish_transfer(self, bundle: Bundle, owner: NextOwner | None, *, reason: str) -> int:
        """Finish a transfer: send the clients of a bundle to its next owner, and remove its topics from memory; return
        the number of topics.

        Clients are disconnected at once, even if `begin_transfer` has not closed all ledgers yet; then this waits until
        they are closed. A client looks up the topic if `owner` is None, or if it cannot use any address of the owner.
        Topics that a later term of this broker has opened stay open, so this may be called late or repeatedly.
        """
        topics = [topic for topic in self._topics.values() if _is_of(topic, bundle) and not topic.is_served]
        closings = [self._departures.close(topic, reason, owner) for topic in topics]
        if closings:
            await asyncio.wait(closings)
        to = owner.broker_id if owner is not None else None
        log.info("bundle_transfer_finished", bundle=str(bundle), topics=len(topics), owner=to, reason=reason)
        return len(topics)

    async def close_topic(self, topic: TopicName, *, reason: str = "unloaded by request") -> bool:
        """Close one topic, and wait until it is closed; return False if it was not loaded. Its clients reconnect, which
        loads the topic again.
        """
        found = self._topics.get(topic)
        if found is None:
            return False
        await asyncio.wait([self._departures.close(found, reason)])
        return True

    async def close(self, *, reason: str = "broker stops") -> None:
        """Cancel running loads, close all topics, and wait until they are closed. Called when the broker stops."""
        for load in list(self._loads.values()):
            load.cancel()
        waiting: list[asyncio.Task[Any]] = [*self._loads.values(), *self._preparations.close()]
        waiting += [self._departures.close(topic, reason) for topic in list(self._topics.values())]
        if waiting:
            await asyncio.wait(waiting)

    async def delete_topic(self, topic: TopicName, *, force: bool, only_unused: bool = False) -> None:
        """Delete a topic with its subscriptions and everything that is stored of it. If the topic is not loaded, it is
        loaded first, so the errors of `get_or_create` are raised, too.

        Raises:
            TopicNotFoundError, NotServedError: the topic does not exist, or this broker does not serve it.
            TopicBusyError: clients are attached and `force` is False, or the topic has a subscription and `only_unused`
                is True.
            LedgerError: the topic could not be deleted.
        """
        await self.delete_loaded(await self.get_or_create(topic, create=False), force=force, only_unused=only_unused)

    async def delete_loaded(self, topic: Topic, *, force: bool, only_unused: bool = False) -> None:
        """Delete a loaded topic. Raises the errors of `delete_topic`."""
        topic.check_deletable(force=force, only_unused=only_unused)
        await asyncio.shield(self._departures.delete(topic, force=force, only_unused=only_unused))

    def namespaces(self) -> set[NamespaceName]:
        """Return the namespaces with topics that are loaded, or are being loaded."""
        return {name.namespace for names in (self._topics, self._loads) for name in names}

    async def apply_policies(self, concerned: Callable[[TopicName], bool] = lambda _topic: True) -> int:
        """Apply the present policies to the loaded topics for which `concerned` returns True, at once. Return the
        number of topics that were closed by this.

        A topic for which deduplication was switched on or off is closed: its clients reconnect, and it is loaded again
        with the new policy.
        """
        loaded = [topic for topic in self._topics.values() if concerned(topic.name)]
        for topic in loaded:
            rules = await self._policies.rules(topic.name)
            if topic.state is TopicState.OPEN:
                topic.follow(rules)
        switched = [
            topic
            for topic in loaded
            if isinstance(topic, PersistentTopic)
            and topic.deduplicates is not await self._policies.deduplicates(topic.name)
        ]
        closings = [
            self._departures.close(topic, "deduplication was switched on or off")
            for topic in switched
            if topic.state is TopicState.OPEN
        ]
        if closings:
            await asyncio.wait(closings)
        return len(closings)

    def refresh_bundles(self) -> int:
        """Move each loaded topic to the bundle to which it belongs now, after a split. Return the number of moved
        topics.

        Topics stay open. Only a topic is closed, and not counted, whose bundle this broker does not serve any more and
        whose former term has ended.
        """
        moved = 0
        for topic in list(self._topics.values()):
            owned = self._authority.served(topic.name)
            if owned is topic.owned or topic.state is not TopicState.OPEN:
                continue
            if owned is None:
                if not topic.owned.active:
                    self._departures.close(topic, "this broker does not serve the topic's bundle")
                continue
            self._forget(topic)
            topic.owned = owned
            self._topics[topic.name] = topic
            self._by_bundle.setdefault(owned.bundle, {})[topic.name] = topic
            moved += 1
        return moved

    # ---- stats ----

    def update_rates(self, now_ms: int) -> None:
        """Compute all rates over the time since the last call. The statistics task calls this.

        The rates of a topic that was loaded after the last call are over the time since it was loaded, as in Pulsar.
        Otherwise a bundle that has just moved would seem to have less load than it has. But that time counts as at
        least a sixth of the time since the last call: otherwise the messages that clients send at once when they
        reconnect would look like a high rate.
        """
        seconds = (now_ms - self.rates_at_ms) / 1000
        if seconds <= 0:
            return
        self.rates_at_ms = now_ms
        for topic in self._topics.values():
            own = (now_ms - topic.loaded_at_ms) / 1000
            topic.update_rates(min(seconds, max(own, seconds / _SHORTEST_PART)))

    def bundle_stats(self) -> dict[str, NamespaceBundleStats]:
        """Return the stats of each bundle with loaded topics, by bundle name; rates are those of the last
        `update_rates`.
        """
        return {str(bundle): bundle_stats(topics.values()) for bundle, topics in self._by_bundle.items()}

    def topic_loads(self, bundle: Bundle) -> list[TopicLoad]:
        """Return the load of each loaded topic of a bundle; rates are those of the last `update_rates`."""
        return topic_loads(self._by_bundle.get(bundle, {}).values())

    def topics_of_bundle(self, bundle: Bundle) -> list[TopicName]:
        """Return the names of the loaded topics of a bundle."""
        return list(self._by_bundle.get(bundle, ()))

    def written_topics(self, bundle: Bundle) -> list[str]:
        """Return the names of a bundle's persistent topics that have producers, the highest inbound rate first."""
        members = self._by_bundle.get(bundle, {}).values()
        written = [topic for topic in members if topic.producers and topic.name.is_persistent]
        return [str(topic.name) for topic in sorted(written, key=lambda topic: -topic.in_rates.rate)]

    def topic_stats(self, topic: Topic, *, owner_broker: str = "") -> dict[str, Any]:
        """Return the stats of a loaded topic as the admin API shows them."""
        return topic_stats(topic, owner_broker=owner_broker)


def _is_of(topic: Topic, bundle: Bundle) -> bool:
    """Return whether a topic is served in a term for `bundle`. A topic may also be served in a term for another bundle,
    of which a later split made `bundle` a part. The internal topics, which the leader serves, belong only to the bundle
    for which they are served.
    """
    served_for = topic.owned.bundle
    return served_for == bundle or (served_for.namespace == bundle.namespace and bundle.contains(topic.name))


def _observe(task: asyncio.Task[Any]) -> None:
    """A callback for finished loads: read the exception, so that asyncio does not log it as never retrieved if no
    client waits for the load any more.
    """
    if not task.cancelled():
        task.exception()
