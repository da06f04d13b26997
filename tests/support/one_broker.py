"""The data plane of one broker that serves everything: topics, connections, storage, no control plane."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pulsar_barycenter.broker.cluster.lookup_answers import LookupAnswer, Owner
from pulsar_barycenter.broker.compaction.compactor import KeepsEarlier
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.own_policies import NO_OWN_POLICIES
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import ANY_BOOKIES, BookieAffinityGroup, Policies, ResourceGroup
from pulsar_barycenter.broker.namespaces.resources import limits_of
from pulsar_barycenter.broker.namespaces.topic_limits import TopicLimits
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules, group_rate_of, rules_of
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.wire.server import WireServer
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.clock import Clock, SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import FULL_RANGE, Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage

T = TypeVar("T")
DEADLINE_S = 60


@dataclass
class Everything:
    """A ServingAuthority that owns every namespace as one bundle, and takes it again after a loss."""

    clock: Clock
    terms: dict[Bundle, OwnedBundle] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    next_epoch: int = 1

    def term(self, topic: TopicName) -> OwnedBundle:
        bundle = Bundle(topic.namespace, FULL_RANGE)
        term = self.terms.get(bundle)
        if term is None:
            term = self.terms[bundle] = OwnedBundle(bundle, self.next_epoch, self.clock.now_ms())
            self.next_epoch += 1
        return term

    def served(self, topic: TopicName) -> OwnedBundle | None:
        term = self.term(topic)
        return term if term.active else None

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        term = self.served(topic)
        if term is None:
            raise NotServedError(topic, "it is being unloaded")
        return term

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        self.losses.append(reason)
        owned.revoked = True
        owned.active = False
        if self.terms.get(owned.bundle) is owned:
            del self.terms[owned.bundle]


@dataclass
class LookupHere:
    """A LookupService that answers with one address."""

    url: str = ""
    partitioned: dict[str, int] = field(default_factory=dict)
    store: MetadataStore | None = None
    waiting: asyncio.Event | None = None

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        return Owner("here", self.url, None, None, None, is_local=True)

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        return Owner("here", self.url, None, None, None, is_local=True)

    async def lookup_bundle(self, bundle: Bundle, **_: Any) -> LookupAnswer | None:
        return Owner("here", self.url, None, None, None, is_local=True)

    async def bundle_of(self, topic: TopicName) -> Bundle:
        return Bundle(topic.namespace, FULL_RANGE)

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        return self.partitioned.get(str(topic), 0)

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        assert self.store is not None
        names = await self.store.children(f"/managed-ledgers/{namespace}/persistent")
        return [f"persistent://{namespace}/{name}" for name in names]


class ConfiguredTopicPolicies:
    """Only the broker's configuration: the limits of every namespace are the same."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.of_schemas = SchemaRules()
        self.group = ResourceGroup()
        """The resource group of every namespace."""
        self.of_bookies = ANY_BOOKIES

    async def may_create(self, topic: TopicName) -> bool:
        return self.config.allow_auto_topic_creation

    async def known(self, topic: TopicName) -> None:
        return

    async def deleted(self, topic: TopicName) -> None:
        return

    async def deduplicates(self, topic: TopicName) -> bool:
        return self.config.broker_deduplication_enabled

    async def compaction_threshold(self, topic: TopicName) -> int:
        return self.config.broker_service_compaction_threshold_in_bytes

    async def rules(self, topic: TopicName) -> TopicRules:
        return rules_of(Policies(), NO_OWN_POLICIES, self.config, group_rate_of("group", self.group))

    async def limits(self, topic: TopicName) -> TopicLimits:
        return limits_of(Policies(), self.config)

    async def bookies(self, topic: TopicName) -> BookieAffinityGroup:
        return self.of_bookies

    async def schema_rules(self, topic: TopicName) -> SchemaRules:
        return self.of_schemas

    async def may_subscribe(self, topic: TopicName) -> bool:
        return self.config.allow_auto_subscription_creation

    async def pending_change(self, partition: TopicName) -> PartitionedChange | None:
        return None


class OneBroker:
    """Topics, connections and storage on the running loop; `disk` and `backend` survive it."""

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        backend: MemoryBackend | None = None,
        disk: MemoryDisk | None = None,
        ledgers: LedgerStorage | None = None,
        clock: Clock | None = None,
        first_epoch: int = 1,
        authority: Everything | None = None,
        lookup: LookupHere | None = None,
        compaction_strategies: Mapping[TopicName, KeepsEarlier] | None = None,
    ) -> None:
        self.config = config or BrokerConfig()
        self.clock = clock or SystemClock()
        self.backend = backend or MemoryBackend()
        self.disk = disk or MemoryDisk()
        self.store = self.backend.connect(self.clock, 30_000)
        self.ledgers = ledgers or MemoryLedgerStorage(self.disk)
        self.env = Environment(self.store, self.ledgers, self.clock, None, None)  # type: ignore[arg-type]
        self.authority = authority or Everything(self.clock, next_epoch=first_epoch)
        self.lookup = lookup or LookupHere(store=self.store)
        self.policies = ConfiguredTopicPolicies(self.config)
        self.registry = TopicRegistry(self.config, self.env, self.authority, self.policies, compaction_strategies)
        self.server = WireServer(self.config, self.env, self.registry, self.lookup)
        self.port = 0

    async def start(self) -> "OneBroker":
        self.port = await self.server.listen("127.0.0.1", 0)
        self.lookup.url = f"pulsar://127.0.0.1:{self.port}"
        return self

    async def unload(self, namespace: str = "public/default") -> int:
        """Release the namespace and take it again at once, under the next epoch."""
        bundle = Bundle(NamespaceName.parse(namespace), FULL_RANGE)
        self.authority.terms[bundle].active = False
        closed = await self.registry.close_bundle(bundle, reason="test")
        del self.authority.terms[bundle]
        return closed

    async def stop(self) -> None:
        self.server.stop_accepting()
        await self.registry.close()
        await self.server.close()
        await self.ledgers.close()
        await self.store.close()


def brokers_in(folder: Path, config: BrokerConfig) -> Callable[[int], OneBroker]:
    """Return what makes brokers with a given first epoch, one after the other, on one store and one folder."""
    backend = MemoryBackend()
    return lambda epoch: OneBroker(config, backend=backend, ledgers=FileLedgerStorage(folder), first_epoch=epoch)


class BrokerThread:
    """A broker on an event loop in a thread of its own, for clients that block."""

    def __init__(self, make: Callable[[], OneBroker]) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="one-broker", daemon=True)
        self.broker: OneBroker

    def __enter__(self) -> "BrokerThread":
        self._thread.start()
        self.broker = self.run(self._start())
        return self

    async def _start(self) -> OneBroker:
        return await self._make().start()

    @property
    def url(self) -> str:
        return self.broker.lookup.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.broker.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(DEADLINE_S)
            self._loop.close()
