"""Transactions over the wire: no coordinators, and a final refusal of each message and acknowledgement in one."""

from typing import Any

import pytest

from pulsar_barycenter.broker.errors import NO_TRANSACTIONS
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import command_frame
from pulsar_barycenter.protocol.frames import payload_header
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of
from support.wire_consumer import TOPIC, ids, place

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"
FIRST_ID = {"txnid_most_bits": 0, "txnid_least_bits": 0}
"""The id of the first transaction of the first coordinator: both halves are the default of their fields."""
LATER_ID = {"txnid_most_bits": 3, "txnid_least_bits": 7}


def send_in(sequence_id: int, **transaction: int) -> bytes:
    """Return a SEND of a message in a transaction, as the Java client writes it."""
    command = api.BaseCommand(type=TYPE.SEND)
    command.send.CopyFrom(api.CommandSend(producer_id=1, sequence_id=sequence_id, **transaction))
    entry = entry_of(b"in one", sequence_id=sequence_id, **transaction)
    return payload_header(command.SerializeToString(), len(entry)) + entry


def entries_in(broker: OneBroker) -> int:
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    return topic.subscriptions["s"].cursor.backlog_entries


@pytest.mark.parametrize("topic", [COORDINATORS, f"{COORDINATORS}-partition-0"])
@pytest.mark.parametrize("auto_create", [False, True])
async def test_who_asks_for_coordinators_gets_a_final_error(client: WireClient, topic: str, auto_create: bool) -> None:
    frame = client_requests.partitioned_metadata(client.request_id(), topic, auto_create=auto_create)
    answer = (await client.ask(frame, TYPE.PARTITIONED_METADATA_RESPONSE))[1]
    assert answer.response == api.CommandPartitionedTopicMetadataResponse.Failed
    assert (answer.error, answer.message) == (api.NotAllowedError, NO_TRANSACTIONS)


@pytest.mark.parametrize(
    "topic", ["persistent://pulsar/system/other", "persistent://a/b/transaction_coordinator_assign"]
)
async def test_other_topics_have_partitions(client: WireClient, topic: str) -> None:
    frame = client_requests.partitioned_metadata(client.request_id(), topic)
    answer = (await client.ask(frame, TYPE.PARTITIONED_METADATA_RESPONSE))[1]
    assert answer.response == api.CommandPartitionedTopicMetadataResponse.Success


@pytest.mark.parametrize(
    ("command_type", "fields"),
    [
        (TYPE.TC_CLIENT_CONNECT_REQUEST, {"tc_id": 0}),
        (TYPE.NEW_TXN, {"tc_id": 0}),
        (TYPE.ADD_PARTITION_TO_TXN, LATER_ID),
        (TYPE.ADD_SUBSCRIPTION_TO_TXN, LATER_ID),
        (TYPE.END_TXN, LATER_ID),
        (TYPE.END_TXN_ON_PARTITION, LATER_ID),
        (TYPE.END_TXN_ON_SUBSCRIPTION, LATER_ID),
    ],
)
async def test_each_command_is_refused_in_its_own_words(
    client: WireClient, command_type: Any, fields: dict[str, int]
) -> None:
    answer = (await client.ask(command_frame(command_type, request_id=3, **fields), command_type + 1))[1]
    assert (answer.request_id, answer.error, answer.message) == (3, api.NotAllowedError, NO_TRANSACTIONS)


@pytest.mark.parametrize("transaction", [FIRST_ID, LATER_ID, {"txnid_most_bits": 0}, {"txnid_least_bits": 0}])
async def test_a_message_in_a_transaction_is_not_stored(
    broker: OneBroker, client: WireClient, transaction: dict[str, int]
) -> None:
    """The messages before and after it are, and all answers come in the order of the messages."""
    await client.subscribe(TOPIC)
    plain = [client_commands.send(1, number, entry_of(b"plain", sequence_id=number)) for number in (0, 2)]
    client.write(plain[0] + send_in(1, **transaction) + plain[1])
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 0
    number, refused, _ = await client.take(lambda number, _: number in {TYPE.SEND_ERROR, TYPE.SEND_RECEIPT})
    assert number == TYPE.SEND_ERROR
    assert (refused.producer_id, refused.sequence_id) == (1, 1)
    assert (refused.error, refused.message) == (api.NotAllowedError, NO_TRANSACTIONS)
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 2
    assert entries_in(broker) == 2


@pytest.mark.parametrize("transaction", [FIRST_ID, LATER_ID, {"txnid_most_bits": 0}, {"txnid_least_bits": 0}])
@pytest.mark.parametrize("ack_type", [api.CommandAck.Individual, api.CommandAck.Cumulative])
async def test_an_acknowledgement_in_a_transaction_has_no_effect(
    broker: OneBroker, client: WireClient, ack_type: Any, transaction: dict[str, int]
) -> None:
    await client.subscribe(TOPIC, permits=10)
    await client.send_all(1)
    position = place((await client.messages(1))[0][0])
    answer = await client.ask(
        command_frame(
            TYPE.ACK, consumer_id=1, ack_type=ack_type, message_id=ids(position), request_id=9, **transaction
        ),
        TYPE.ACK_RESPONSE,
    )
    assert (answer[1].request_id, answer[1].error, answer[1].message) == (9, api.NotAllowedError, NO_TRANSACTIONS)
    assert entries_in(broker) == 1
    await client.ask(client_commands.ack(1, ids(position), request_id=10), TYPE.ACK_RESPONSE)
    assert entries_in(broker) == 0
