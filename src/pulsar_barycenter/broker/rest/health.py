"""The health check: writes a message to this broker's own topic and reads it back.

The message is handled like that of a client: ownership check, ledger, disk, read. Only the socket is not tested; the
request itself came over one. Source: Pulsar's `BrokersBase.internalRunHealthCheck`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.clients.link import LinkedConsumer, LinkedProducer, StalledDispatcher
from pulsar_barycenter.broker.clients.producer import ProducerOptions
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.errors import TopicFencedError
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.position import EntryRun, Position
from pulsar_barycenter.naming.namespace import heartbeat_namespaces
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol.frames import encode_entry, split_entry
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

TIMEOUT_S: Final = 58.0
_LOCAL_NAME: Final = "healthcheck"
_READ_BYTES: Final = 1 << 20


async def check_health(services: BrokerServices, *, legacy: bool = False) -> None:
    """Write a message to a topic of this broker's own heartbeat namespace, and check that it can be read back. With
    `legacy`, use the topic in the namespace of older releases, whose name contains the name of the cluster.

    Raises:
        RestError: 503, the broker is starting or stopping, or does not serve its own topic now; 500, the message could
            not be written and read back in time, or the data files cannot be written.
    """
    require_data(services)
    if not services.is_ready():
        raise RestError(503, "Broker is not ready: it is starting or stopping")
    names = heartbeat_namespaces(services.config.cluster_name, services.urls.broker_id)
    topic = TopicName.of("persistent", names[1 if legacy else 0], _LOCAL_NAME)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _write_and_read(services, topic)
    except TimeoutError:
        raise RestError(500, f"Health check of {topic} did not finish in {TIMEOUT_S:.0f} s") from None
    except (NotServedError, TopicFencedError) as error:
        raise RestError(503, f"Health check failed: {error}") from error
    except LedgerError as error:
        raise RestError(500, f"Health check failed: {error}") from error


def require_data(services: BrokerServices) -> None:
    """Check that each data file that the broker opened still exists at its path, and can be written.

    Raises:
        RestError: 500, a data file is missing or cannot be written.
    """
    fault = services.data_fault()
    if fault:
        raise RestError(500, f"This broker cannot store data: {fault}")


async def _write_and_read(services: BrokerServices, name: TopicName) -> None:
    topic = await services.registry.get_or_create(name, create=True)
    assert isinstance(topic, PersistentTopic)
    env = services.control.env
    token = f"{env.random.getrandbits(128):032x}"
    link = _OwnLink()
    producer = await topic.add_producer(link, 0, ProducerOptions(name=f"healthCheck-{token}"))
    try:
        now_ms = env.clock.now_ms()
        metadata = MessageMetadata(producer_name=producer.name, sequence_id=0, publish_time=now_ms)
        entry = encode_entry(metadata.SerializeToString(), token.encode())
        topic.publish([(producer, 0, 0, 1, len(entry), 0)], [(entry, 1, now_ms)])
        position = await link.stored
    finally:
        topic.forget_producer(producer)
    entries = await topic.ledger.read(position, 1, _READ_BYTES)
    if not entries or split_entry(entries[0].data)[1] != token.encode():
        raise RestError(
            500,
            f"Health check of {name}: the message at {position} was read back differently: check the disk of this "
            "broker",
        )


class _OwnLink:
    """The link of a producer that this broker attaches to its own topic for the health check. It takes the place of a
    client's connection, without a socket. The result of the future `stored` is the position of the message, or the
    exception with which the topic refused the message.
    """

    address = "internal"
    client_version = "health check"
    writable = True

    def __init__(self) -> None:
        self.stored: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        if not self.stored.done():
            self.stored.set_result(first)

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        self._fail(LedgerError("the message was not stored"))

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        self._fail(error)

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        self._fail(LedgerError("the topic was closed"))

    def abort(self, reason: str) -> None:
        self._fail(LedgerError(reason))

    async def is_alive(self) -> bool:
        return True

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None: ...

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None: ...

    def send_message(
        self,
        consumer: LinkedConsumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None: ...

    def send_messages(self, consumer: LinkedConsumer, run: EntryRun) -> None: ...

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None: ...

    def refuse_message(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        self.send_error(producer, sequence_id, error)

    def hold_reading(self, throttle: Throttle) -> None: ...

    def send_end_of_topic(self, consumer: LinkedConsumer) -> None: ...

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None: ...

    def _fail(self, error: Exception) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)
