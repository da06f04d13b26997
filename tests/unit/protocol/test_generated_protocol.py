from pathlib import Path

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE
from support.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"


def _generator():
    return load_script("generate_protocol")


def test_the_generated_modules_are_those_of_the_definitions(tmp_path):
    generator = _generator()
    generator.generate(tmp_path)
    for name in generator.GENERATED:
        assert (tmp_path / name).read_text() == (SOURCE / name).read_text(), f"run scripts/generate_protocol.py: {name}"


def test_every_command_type_has_the_field_of_its_number():
    assert {number for _, number in api.BaseCommand.Type.items()} == set(FIELD_OF_TYPE)


def test_defaults_that_are_not_zero_are_those_of_the_protocol():
    assert api.CommandProducer().user_provided_producer_name is True
    assert api.CommandSubscribe().durable is True
    assert api.CommandSubscribe().force_topic_creation is True
    assert api.CommandGetTopicsOfNamespaceResponse().changed is True
    assert api.CommandProducerSuccess().producer_ready is True
    assert api.CommandProducerSuccess().last_sequence_id == -1
    assert api.CommandPartitionedTopicMetadata().metadata_auto_creation_enabled is True
    assert (api.MessageIdData().partition, api.MessageIdData().batch_index) == (-1, -1)
    assert (api.CommandSend().num_messages, api.MessageMetadata().num_messages_in_batch) == (1, 1)
