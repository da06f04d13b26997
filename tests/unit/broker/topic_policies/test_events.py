"""The messages with the policies of topics: their bytes are those that Pulsar's brokers 4.2.4 and 5.0.0 write."""

import io
from importlib.resources import files

import msgspec
import pytest

from pulsar_barycenter.broker.namespaces.own_policies import NO_OWN_POLICIES, OwnPolicies
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    BacklogQuota,
    DispatchRate,
    InactiveDeleteMode,
    InactiveTopicPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
)
from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.broker.topic_policies.avro_binary import AvroCodec, NotOfSchemaError
from pulsar_barycenter.broker.topic_policies.events import decode_event, encode_event, is_key, key_of
from pulsar_barycenter.naming.topic import TopicName

T = TopicName.parse("persistent://t/n/x")
EMPTY = (
    "02040200020202630002021470657273697374656e7402026e02000200000000000000000000000200000000000000000000000000000000"
    "000000000002000200020274020278"
)
SOME = (
    "02040200020202630002021470657273697374656e7402026e020002022664657374696e6174696f6e5f73746f726167650002d00f010202"
    "00000000000000000000000200000000020600000002f001000000000002281400000000000002000200020274020278"
)
MANY = (
    "02040200020202630002021470657273697374656e7402026e020201020002808080808040020102120201020a02d00f02010a0401020100"
    "02010202780200000002d00f000002020204000002020404000000000000f83f0002100e0000000206020100023c06000216020002040206"
    "00020274020278"
)
"""Written by Pulsar's Java client with the schema of `PulsarEvent`, for the cluster `c`."""
OF_SOME = OwnPolicies(
    message_ttl_in_seconds=120,
    retention_policies=RetentionPolicies(10, 20),
    max_producer_per_topic=3,
    back_log_quota_map={"destination_storage": BacklogQuota(0, 1000, -1, "producer_exception")},
)
OF_MANY = OwnPolicies(
    dispatch_rate=DispatchRate(5, -1, True, 2),
    publish_rate=PublishRate(7, 8),
    subscribe_rate=SubscribeRate(3, 30),
    delayed_delivery_enabled=True,
    delayed_delivery_tick_time_millis=1000,
    delayed_delivery_max_delay_in_millis=5,
    inactive_topic_policies=InactiveTopicPolicies(InactiveDeleteMode.CAUGHT_UP, 60, True),
    persistence=PersistencePolicies(2, 2, 1, 1.5),
    subscription_types_enabled=("Shared", "Key_Shared"),
    max_message_size=1000,
    max_unacked_messages_on_consumer=1,
    max_unacked_messages_on_subscription=2,
    deduplication_enabled=True,
    deduplication_snapshot_interval_seconds=9,
    schema_compatibility_strategy=Strategy.BACKWARD,
    schema_validation_enforced=True,
    dispatcher_pause_on_ack_state_persistent_enabled=True,
    compaction_threshold=1 << 40,
    subscription_expiration_time_in_minutes=11,
    auto_subscription_creation_override=AutoSubscriptionCreationOverride(True),
)
SCHEMA = msgspec.json.decode(
    files("pulsar_barycenter.broker.topic_policies").joinpath("pulsar_event.avsc").read_bytes()
)


@pytest.mark.parametrize(("policies", "hexadecimal"), [(NO_OWN_POLICIES, EMPTY), (OF_SOME, SOME), (OF_MANY, MANY)])
def test_the_bytes_are_pulsars(policies: OwnPolicies, hexadecimal: str) -> None:
    encoded = encode_event(T, policies, "c")
    assert encoded.hex() == hexadecimal
    assert decode_event(encoded) == policies


def test_partitions_share_the_policies_of_their_topic() -> None:
    assert key_of(T.partition(3)) == key_of(T) == "persistent://t/n/x"
    assert encode_event(T.partition(3), OF_SOME, "c") == encode_event(T, OF_SOME, "c")
    assert not is_key("__G__persistent://t/n/x"), "policies that are copied to other clusters"
    assert is_key("persistent://t/n/x")


def test_every_cut_and_every_damaged_byte_is_refused_or_decoded() -> None:
    whole = bytes.fromhex(MANY)
    for end in range(len(whole)):
        with pytest.raises(NotOfSchemaError):
            decode_event(whole[:end])
    for at in range(len(whole)):
        for damage in (0x00, 0x01, 0x7F, 0xFF):
            try:
                decode_event(whole[:at] + bytes([damage]) + whole[at + 1 :])
            except NotOfSchemaError:
                continue


def test_an_event_of_another_kind_sets_nothing() -> None:
    other = AvroCodec(SCHEMA).encode({"eventType": "TRANSACTION_BUFFER_SNAPSHOT"})
    assert decode_event(other) == NO_OWN_POLICIES


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(NotOfSchemaError):
        AvroCodec(SCHEMA).encode({"eventType": "SOMETHING"})
    with pytest.raises(NotOfSchemaError):
        encode_event(T, OwnPolicies(subscription_types_enabled=("Any",)), "c")


def test_fastavro_reads_and_writes_the_same() -> None:
    fastavro = pytest.importorskip("fastavro")
    parsed = fastavro.parse_schema(SCHEMA)
    for hexadecimal in (EMPTY, SOME, MANY):
        data = bytes.fromhex(hexadecimal)
        value = fastavro.schemaless_reader(io.BytesIO(data), parsed, None)
        assert AvroCodec(SCHEMA).decode(data) == value
        assert AvroCodec(SCHEMA).encode(value) == data
