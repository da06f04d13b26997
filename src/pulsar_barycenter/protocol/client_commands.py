"""Builds the frames that a client sends.

A client's `Connection` uses these functions to send CONNECT; the broker's own client of system topics uses them to
produce and consume. `commands` has the frames that brokers and clients send.

Source: binary-protocol reference, section 2.
"""

from collections.abc import Sequence
from typing import Final

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import PROTOCOL_VERSION, TYPE, command_frame, message_id
from pulsar_barycenter.protocol.frames import payload_header

EARLIEST: Final = message_id(-1, -1)
LATEST: Final = message_id(2**63 - 1, 2**63 - 1)
"""The `start_message_id` for `subscribe` that begins after all messages. EARLIEST begins before all messages."""


def _key_values(properties: dict[str, str] | None) -> list[api.KeyValue] | None:
    return [api.KeyValue(key=key, value=value) for key, value in properties.items()] if properties else None


def connect(
    client_version: str,
    *,
    protocol_version: int = PROTOCOL_VERSION,
    auth_method_name: str = "none",
    auth_data: bytes | None = None,
    feature_flags: api.FeatureFlags | None = None,
    original_principal: str | None = None,
    original_auth_method: str | None = None,
    original_auth_data: str | None = None,
) -> bytes:
    return command_frame(
        TYPE.CONNECT,
        client_version=client_version,
        protocol_version=protocol_version,
        auth_method_name=auth_method_name,
        auth_data=auth_data,
        feature_flags=feature_flags,
        original_principal=original_principal,
        original_auth_method=original_auth_method,
        original_auth_data=original_auth_data,
    )


def auth_response(client_version: str, auth_method_name: str, auth_data: bytes | None) -> bytes:
    """Return the AUTH_RESPONSE frame, which answers an AUTH_CHALLENGE with credentials: `auth_data` for the
    authentication method `auth_method_name`.
    """
    response = api.AuthData(auth_method_name=auth_method_name, auth_data=auth_data)
    return command_frame(
        TYPE.AUTH_RESPONSE, client_version=client_version, response=response, protocol_version=PROTOCOL_VERSION
    )


def producer(
    request_id: int,
    producer_id: int,
    topic: str,
    *,
    producer_name: str | None = None,
    user_provided_name: bool | None = None,
    epoch: int = 0,
    access_mode: api.ProducerAccessMode.ValueType = api.Shared,
    schema: api.Schema | None = None,
    properties: dict[str, str] | None = None,
    topic_epoch: int | None = None,
    initial_subscription_name: str | None = None,
    is_encrypted: bool = False,
) -> bytes:
    return command_frame(
        TYPE.PRODUCER,
        topic=topic,
        producer_id=producer_id,
        request_id=request_id,
        producer_name=producer_name,
        encrypted=is_encrypted,
        metadata=_key_values(properties),
        schema=schema,
        epoch=epoch,
        user_provided_producer_name=user_provided_name,
        producer_access_mode=access_mode,
        topic_epoch=topic_epoch,
        initial_subscription_name=initial_subscription_name,
    )


def send(
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    *,
    num_messages: int | None = None,
    highest_sequence_id: int | None = None,
    is_chunk: bool | None = None,
) -> bytes:
    """Return a SEND frame with its entry (see `frames.encode_entry`). `num_messages` is the number of messages of a
    batch; None for a single message. `highest_sequence_id` is the sequence id of the last message of a batch.
    `is_chunk` is whether the entry is one chunk of a large message.
    """
    command = api.BaseCommand(type=TYPE.SEND)
    message = command.send
    message.producer_id = producer_id
    message.sequence_id = sequence_id
    if num_messages is not None:
        message.num_messages = num_messages
    if highest_sequence_id is not None:
        message.highest_sequence_id = highest_sequence_id
    if is_chunk is not None:
        message.is_chunk = is_chunk
    return payload_header(command.SerializeToString(), len(entry)) + entry


def subscribe(
    request_id: int,
    consumer_id: int,
    topic: str,
    subscription: str,
    *,
    sub_type: api.CommandSubscribe.SubType.ValueType = api.CommandSubscribe.Exclusive,
    consumer_name: str | None = None,
    priority_level: int = 0,
    durable: bool | None = None,
    start_message_id: api.MessageIdData | None = None,
    initial_position: api.CommandSubscribe.InitialPosition.ValueType = api.CommandSubscribe.Latest,
    force_topic_creation: bool | None = None,
    start_rollback_s: int | None = None,
    key_shared: api.KeySharedMeta | None = None,
    properties: dict[str, str] | None = None,
    subscription_properties: dict[str, str] | None = None,
    consumer_epoch: int | None = None,
    schema: api.Schema | None = None,
    read_compacted: bool | None = None,
) -> bytes:
    return command_frame(
        TYPE.SUBSCRIBE,
        topic=topic,
        subscription=subscription,
        subType=sub_type,
        consumer_id=consumer_id,
        request_id=request_id,
        consumer_name=consumer_name,
        priority_level=priority_level,
        durable=durable,
        start_message_id=start_message_id,
        metadata=_key_values(properties),
        read_compacted=read_compacted,
        schema=schema,
        initialPosition=initial_position,
        force_topic_creation=force_topic_creation,
        start_message_rollback_duration_sec=start_rollback_s,
        keySharedMeta=key_shared,
        subscription_properties=_key_values(subscription_properties),
        consumer_epoch=consumer_epoch,
    )


def flow(consumer_id: int, permits: int) -> bytes:
    return command_frame(TYPE.FLOW, consumer_id=consumer_id, messagePermits=permits)


def ack(
    consumer_id: int,
    message_ids: Sequence[api.MessageIdData],
    *,
    cumulative: bool = False,
    request_id: int | None = None,
    validation_error: api.CommandAck.ValidationError.ValueType | None = None,
) -> bytes:
    """Return the frame that acknowledges `message_ids`. If `cumulative` is True, it must have exactly one id, and all
    messages up to and including that one are acknowledged. If `request_id` is given, the broker answers with
    ACK_RESPONSE. `validation_error` tells the broker why the client could not use the messages.
    """
    return command_frame(
        TYPE.ACK,
        consumer_id=consumer_id,
        ack_type=api.CommandAck.Cumulative if cumulative else api.CommandAck.Individual,
        message_id=list(message_ids),
        validation_error=validation_error,
        request_id=request_id,
    )


def get_last_message_id(request_id: int, consumer_id: int) -> bytes:
    return command_frame(TYPE.GET_LAST_MESSAGE_ID, consumer_id=consumer_id, request_id=request_id)
