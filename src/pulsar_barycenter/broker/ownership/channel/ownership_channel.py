"""The ownership channel of one broker: connects the ownership records, the state machine, and the leader's repairs."""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from pulsar_barycenter.broker.access.tls_ports import own_tls
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.leadership import Duty, Leadership
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import between_brokers
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.bundle_owner import BundleOwner
from pulsar_barycenter.broker.ownership.channel.channel_counters import ChannelCounters, CountedRecords
from pulsar_barycenter.broker.ownership.channel.leader_repairs import LeaderRepairs
from pulsar_barycenter.broker.ownership.channel.leaders_topics import LeadersTopics
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import TermRecord
from pulsar_barycenter.broker.ownership.channel.places.following_records import FollowingRecords
from pulsar_barycenter.broker.ownership.channel.places.place import SOURCES
from pulsar_barycenter.broker.ownership.channel.places.syncer import CopiedRecords, RecordsSyncer
from pulsar_barycenter.broker.ownership.channel.record_ownership import RecordOwnership
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords, RecordListener
from pulsar_barycenter.broker.ownership.channel.store_records import StoreRecords
from pulsar_barycenter.broker.ownership.channel.topic_records import TopicRecords
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.broker.ownership.mixed_ownership import OwnershipMode
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import OWNERS_IN_STORE, short_name
from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle

T = TypeVar("T")


def configured_place(config: BrokerConfig) -> StorageType:
    """Return where the ownership records are stored, as the configuration says: in a topic or in the metadata store."""
    in_store = short_name(config.load_manager_service_unit_state_table_view_class_name) == OWNERS_IN_STORE
    return StorageType.METADATA_STORE if in_store else StorageType.SYSTEM_TOPIC


def first_place(config: BrokerConfig) -> StorageType:
    """Return where the ownership records of a new cluster are stored: in a topic or in the metadata store. If the
    configuration says that the records are moved from one to the other, return the one from which they are moved.
    """
    return SOURCES.get(config.load_balancer_service_unit_table_view_syncer, configured_place(config))


class OwnershipChannel:
    """Owns bundles by ownership records, for one broker. Implements `OwnershipChanges`. `choose(bundle, brokers)`
    returns an owner for the bundle, but none of `brokers`; None if no broker can own it.
    """

    def __init__(
        self,
        config: ConfigHolder,
        env: Environment,
        bundles: BundleCache,
        registration: Registration,
        leadership: Leadership,
        serving_log: ServingLog,
        incarnation: str,
        choose: Callable[[Bundle, Collection[str]], Awaitable[str | None]],
    ) -> None:
        self._config = config
        self._leadership = leadership
        tls = own_tls(config.current)
        self.topics = SystemTopicClient(self._internal_topics_url, clock=env.clock, source=env.random, tls=tls)
        self.counters = ChannelCounters()
        self._store = env.store
        self._own_topics = SystemTopicClient(self._own_url, clock=env.clock, source=env.random, tls=tls)
        """Reaches the internal topics only while this broker serves them."""
        following = FollowingRecords(env.store, incarnation, lambda: first_place(config.current), self._records_in)
        self.records = CountedRecords(following, self.counters)
        terms: LocalTerms[TermRecord] = LocalTerms(
            env.store,
            bundles,
            clock=env.clock,
            serving_log=serving_log,
            session_timeout_s=config.current.metadata_store_session_timeout_millis / 1000,
            unload_timeout_s=lambda: config.current.namespace_bundle_unloading_timeout_ms / 1000,
        )
        self.ownership = RecordOwnership(
            env.store,
            terms,
            self.records,
            registration,
            incarnation=incarnation,
            holds_locks=lambda: config.current.load_manager_migration_enabled,
            in_flight_s=lambda: config.current.load_balancer_in_flight_service_unit_state_waiting_time_in_millis / 1000,
            keeps_clients=lambda: config.current.load_balancer_multi_phase_bundle_unload,
            choose=choose,
            counters=self.counters,
        )
        self.leaders_topics = LeadersTopics(
            env.store,
            leadership,
            clock=env.clock,
            pauses=terms.pauses,
            serving_log=serving_log,
            owner_named=self.ownership.owner_named,
            close_topics=lambda bundle, reason: terms.tasks.start(
                terms.topics.close(bundle, reason), f"close {bundle}"
            ),
            changed=self._internal_topics_moved,
        )
        self.ownership.on_interruption(self.leaders_topics.interrupted)
        self.owner = BundleOwner(terms, self.ownership, self.leaders_topics)
        """The ownership for the rest of the broker."""
        self.syncer = RecordsSyncer(env.store, following, config, leadership, self._copied_records_in)
        self.ownership.on_record(self._on_record)
        self._repairs = LeaderRepairs(
            env.store,
            self.records,
            registration,
            config,
            env.clock,
            is_leader=leadership.may_act,
            epoch=leadership.epoch,
            choose=choose,
            counters=self.counters,
        )

    async def close(self) -> None:
        """End the ownership of all bundles without handing them over, end the leader's repairs, and close the
        connection to the internal topics. Idempotent.
        """
        self._repairs.close()
        await self.syncer.close()
        await self.owner.close()
        await self._own_topics.close()
        await self.topics.close()

    @property
    def mode(self) -> OwnershipMode:
        """How the configuration of this broker says that it owns bundles: by locks or by records. It can be read only
        after the broker's id is known.
        """
        return self.ownership.mode._replace(place=configured_place(self._config.current).value)

    # ---- for load managers (OwnershipChanges) ----

    def on_record(self, listener: RecordListener) -> None:
        self.ownership.on_record(listener)

    def owners(self) -> list[tuple[Bundle, str]]:
        return self.ownership.owners()

    def properties(self) -> dict[str, str]:
        return self.ownership.mode.properties()

    def mover(
        self, guard: Callable[[], Guard], by_command: Callable[[Bundle, str, str | None], Awaitable[bool]]
    ) -> Callable[[Bundle, str, str | None], Awaitable[bool]]:
        async def move(bundle: Bundle, source: str, destination: str | None) -> bool:
            return await self.ownership.move(bundle, source, destination, guard())

        return move

    def table(self, local: Callable[[], T], in_topic: Callable[[SystemTopicClient], T]) -> T:
        return in_topic(self.topics)

    # ---- places and the leader's duties ----

    def _records_in(self, place: StorageType) -> OwnershipRecords:
        return StoreRecords(self._store) if place is StorageType.METADATA_STORE else TopicRecords(self.topics)

    def _copied_records_in(self, place: StorageType) -> CopiedRecords:
        return StoreRecords(self._store) if place is StorageType.METADATA_STORE else TopicRecords(self._own_topics)

    def _on_record(self, *_change: object) -> None:
        if self.syncer.is_on:
            self.syncer.due.set()

    async def _own_url(self) -> str | None:
        return None if self.leaders_topics.served() is None else await self._internal_topics_url()

    async def _internal_topics_url(self) -> str | None:
        owner = self.leaders_topics.owner()
        by_tls = self._config.current.broker_client_tls_enabled
        return None if owner is None else between_brokers(owner.broker_url, owner.broker_url_tls, by_tls=by_tls)

    def _internal_topics_moved(self) -> None:
        self.topics.owner_changed()
        self._own_topics.owner_changed()
        self._repairs.due.set()

    def monitor_duty(self) -> Duty:
        """Return the leader's duty that repairs ownership: the leader does it each time a broker joins or leaves, and
        periodically.
        """
        return Duty(
            "ownership monitor",
            self._repairs.run,
            lambda: float(self._config.current.load_balancer_service_unit_state_monitor_interval_in_seconds),
            wake=self._repairs.due,
            min_pause_s=self._repairs.pause_s,
        )

    def syncer_duty(self) -> Duty:
        """Return the leader's duty that moves the ownership records between the topic and the metadata store: the
        leader does it after each change of a record, and periodically.
        """
        return Duty(
            "ownership records' syncer",
            self.syncer.run,
            lambda: 1.0 if self.syncer.is_on else 5.0,
            wake=self.syncer.due,
            min_pause_s=lambda: 0.05,
        )
