"""What Pulsar 5's clients ask before they open a topic: layouts of ordinary topics, and a refusal of scalable ones."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.wire.scalable_requests import segments_of
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import command_frame
from support import client_requests as ask
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

PLAIN = "persistent://public/default/plain"


@pytest.fixture
async def client() -> AsyncIterator[WireClient]:
    broker = await OneBroker(BrokerConfig()).start()
    yield await WireClient.connect(broker.port)
    await broker.stop()


async def layout(client: WireClient, topic: str) -> api.CommandScalableTopicUpdate:
    client.write(command_frame(TYPE.SCALABLE_TOPIC_LOOKUP, session_id=7, topic=topic))
    answer: api.CommandScalableTopicUpdate = await client.expect(TYPE.SCALABLE_TOPIC_UPDATE)
    assert answer.session_id == 7
    return answer


@given(st.integers(min_value=0, max_value=10_000))
def test_segments_cover_all_hashes_once_and_name_the_partitions_in_order(partitions: int) -> None:
    topic = TopicName.parse(PLAIN)
    segments = segments_of(topic, partitions)
    assert [segment.legacy_topic_name for segment in segments] == (
        [f"{PLAIN}-partition-{index}" for index in range(partitions)] or [PLAIN]
    )
    assert [segment.segment_id for segment in segments] == list(range(max(partitions, 1)))
    assert (segments[0].hash_start, segments[-1].hash_end) == (0, 0xFFFF)
    for before, after in pairwise(segments):
        assert before.hash_end + 1 == after.hash_start
        assert before.hash_start <= before.hash_end


async def test_an_ordinary_topic_is_one_segment_whether_it_exists_or_not(client: WireClient) -> None:
    for _ in range(2):
        answer = await layout(client, PLAIN)
        assert [segment.legacy_topic_name for segment in answer.dag.segments] == [PLAIN]
        assert answer.resolved_topic_name == "topic://public/default/plain"
        await client.produce(PLAIN)


@pytest.mark.parametrize(
    ("topic", "code", "said"),
    [
        ("topic://public/default/t", api.NotAllowedError, "use a topic whose name begins with persistent://"),
        ("segment://public/default/t/0000-7fff-1", api.NotAllowedError, "Scalable topics are not served"),
        (f"{PLAIN}-partition-3", api.NotAllowedError, f"Open the topic {PLAIN} instead"),
        ("queue://public/default/t", api.InvalidTopicName, "Invalid topic domain"),
    ],
)
async def test_what_has_no_layout_is_refused_with_a_sentence(
    client: WireClient, topic: str, code: int, said: str
) -> None:
    answer = await layout(client, topic)
    assert answer.error == code
    assert said in answer.message
    assert not answer.HasField("dag")


async def test_a_lookup_of_a_scalable_topic_is_final(client: WireClient) -> None:
    _, answer = await client.ask(ask.lookup(1, "topic://public/default/t"), TYPE.LOOKUP_RESPONSE)
    assert (answer.response, answer.error) == (api.CommandLookupTopicResponse.Failed, api.NotAllowedError)
    assert "Scalable topics are not served by this cluster" in answer.message


async def test_sessions_and_watches_end_without_an_answer_and_the_connection_stays(client: WireClient) -> None:
    client.write(command_frame(TYPE.WATCH_SCALABLE_TOPICS, watch_id=3, namespace="public/default"))
    answer = await client.expect(TYPE.WATCH_SCALABLE_TOPICS_UPDATE)
    assert (answer.watch_id, answer.HasField("snapshot"), list(answer.snapshot.topics)) == (3, True, [])
    client.write(command_frame(TYPE.WATCH_SCALABLE_TOPICS_CLOSE, watch_id=3))
    client.write(command_frame(TYPE.SCALABLE_TOPIC_CLOSE, session_id=7))
    frame = command_frame(
        TYPE.SCALABLE_TOPIC_SUBSCRIBE,
        request_id=4,
        topic=PLAIN,
        subscription="s",
        consumer_name="c",
        consumer_id=1,
    )
    _, refused = await client.ask(frame, TYPE.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
    assert (refused.request_id, refused.error) == (4, api.NotAllowedError)
    assert "has no segments to share out" in refused.message
    client.write(command_frame(TYPE.SCALABLE_TOPIC_UNSUBSCRIBE, request_id=5, consumer_id=1))
    assert (await client.expect(TYPE.SUCCESS)).request_id == 5
    await client.settled()
