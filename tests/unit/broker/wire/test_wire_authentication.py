"""The authentication of a client of the binary protocol: at CONNECT, and again when its proof has expired."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from pulsar_barycenter.broker.access.authentication import Authentication, Session
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.broker.bounded_log import MOST_A_SECOND
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.bad_proofs import BAD, claimed, settings
from support.one_broker import OneBroker
from support.proofs import NOW_S, SetClock, asking_config, by_token, token
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
REFRESHES = api.FeatureFlags(supports_auth_refresh=True)


@asynccontextmanager
async def asking_broker(**settings: Any) -> AsyncIterator[OneBroker]:
    broker = await OneBroker(asking_config(**settings), clock=SetClock()).start()
    try:
        yield broker
    finally:
        await broker.stop()


def principal_of(broker: OneBroker) -> Principal:
    (connection,) = broker.server.connections
    assert isinstance(connection, Connection)
    return connection.principal


async def refusal(broker: OneBroker, **proof: Any) -> str:
    """Return what the broker sends to a client before it closes the connection."""
    client = await WireClient.introduced(broker.port, **proof)
    error = await client.expect(TYPE.ERROR)
    await client.expect_closed()
    assert (error.error, error.request_id) == (api.AuthenticationError, commands.NO_REQUEST)
    return error.message


async def test_who_shows_a_token_is_let_in_by_its_role() -> None:
    async with asking_broker() as broker:
        client = await WireClient.connect(broker.port, **by_token("alice"))
        assert principal_of(broker) == Principal("alice")
        assert (await client.produce(TOPIC)).producer_name


async def test_a_flood_of_strangers_is_a_number_in_the_log() -> None:
    """The clock is stopped, so that all come within one second."""
    async with asking_broker() as broker:
        with capture_logs() as logs:
            for _ in range(MOST_A_SECOND + 3):
                await refusal(broker, auth_method_name="token", auth_data=b"x" * 9)
            for _ in range(MOST_A_SECOND + 3):
                client = await WireClient.open(broker.port)
                client.write(b"\0\0\0\x09GET / no frame")
                await client.expect_closed()
    for event in ("authentication_refused", "connection_closed"):
        assert len([each for each in logs if each["event"] == event]) == MOST_A_SECOND


async def test_what_is_said_behind_connect_waits_for_its_answer() -> None:
    async with asking_broker() as broker:
        client = await WireClient.open(broker.port)
        client.write(client_commands.connect("Test", **by_token("alice")) + client_commands.producer(7, 1, TOPIC))
        client.wire.connect("Test")
        client.wire.data_to_send()
        await client.expect(TYPE.CONNECTED)
        assert (await client.expect(TYPE.PRODUCER_SUCCESS)).request_id == 7


async def test_whoever_shows_nothing_or_what_is_not_believed_is_told_why_and_closed() -> None:
    forged = f"{token('admin')[:-6]}AAAAAA"
    with capture_logs() as logs:
        async with asking_broker() as broker:
            assert "this broker requires authentication" in await refusal(broker)
            assert "expired" in await refusal(broker, **by_token("alice", expires_at_s=NOW_S - 1))
            said = await refusal(broker, auth_method_name="token", auth_data=forged.encode())
            assert "not signed by the key" in said
            assert "not one of proxyRoles" in await refusal(broker, **by_token("bob"), original_principal="alice")
            assert not broker.server.connections
    told = [each for each in logs if each["event"] == "authentication_refused"]
    assert len(told) == 4
    assert all(each["reason"] and each["address"] for each in told)
    assert forged not in str(logs)


async def test_a_proxy_speaks_for_its_client() -> None:
    async with asking_broker(proxy_roles=("proxy",)) as broker:
        await WireClient.connect(broker.port, **by_token("proxy"), original_principal="alice")
        assert principal_of(broker) == Principal("proxy", "alice")


async def expired(broker: OneBroker, **options: Any) -> WireClient:
    """Return a client whose proof has expired since it was let in."""
    client = await WireClient.connect(broker.port, **by_token("alice", expires_at_s=NOW_S + 60), **options)
    assert isinstance(broker.clock, SetClock)
    broker.clock.now_s += 60
    return client


LOOK_S = 0.1
LOOKS_OFTEN = {"authentication_refresh_check_seconds": LOOK_S}


async def test_whose_proof_expired_is_asked_for_another_and_goes_on() -> None:
    async with asking_broker(**LOOKS_OFTEN) as broker:
        client = await expired(broker, feature_flags=REFRESHES)
        challenge = (await client.expect(TYPE.AUTH_CHALLENGE)).challenge
        assert (challenge.auth_method_name, challenge.auth_data) == ("token", commands.AUTH_REFRESH)
        renewed = token("alice", expires_at_s=NOW_S + 120)
        client.write(client_commands.auth_response("Test", "token", renewed.encode()))
        assert (await client.produce(TOPIC)).producer_name
        broker.clock.now_s += 60  # type: ignore[attr-defined]
        await client.expect(TYPE.AUTH_CHALLENGE)


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (by_token("bob"), "another role than the connection"),
        (by_token("alice", expires_at_s=NOW_S + 59), "expired"),
        ({"auth_method_name": "none", "auth_data": None}, "this broker requires authentication"),
    ],
)
async def test_who_answers_with_what_is_no_proof_of_the_same_role_is_closed(proof: dict[str, Any], said: str) -> None:
    async with asking_broker(**LOOKS_OFTEN) as broker:
        client = await expired(broker, feature_flags=REFRESHES)
        await client.expect(TYPE.AUTH_CHALLENGE)
        client.write(client_commands.auth_response("Test", *proof.values()))
        assert said in (await client.expect(TYPE.ERROR)).message
        await client.expect_closed()


async def test_a_new_proof_whose_check_takes_long_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, is_over = Authentication.refreshed, asyncio.Event()

    async def takes_long(self: Authentication, session: Session, credentials: Credentials) -> Session:
        loop = asyncio.get_running_loop()
        looked_twice = loop.create_future()
        loop.call_later(2.5 * LOOK_S, looked_twice.set_result, None)
        await looked_twice
        is_over.set()
        return await checked(self, session, credentials)

    monkeypatch.setattr(Authentication, "refreshed", takes_long)
    async with asking_broker(**LOOKS_OFTEN) as broker:
        client = await expired(broker, feature_flags=REFRESHES)
        await client.expect(TYPE.AUTH_CHALLENGE)
        client.write(client_commands.auth_response("Test", "token", token("alice", expires_at_s=NOW_S + 120).encode()))
        await is_over.wait()
        assert (await client.produce(TOPIC)).producer_name
        assert not any(number == TYPE.AUTH_CHALLENGE for number, *_ in client.received)


@pytest.mark.parametrize("name", BAD)
async def test_no_bad_proof_takes_the_place_of_one_that_expired(name: str) -> None:
    config = replace(BrokerConfig(**settings()), **LOOKS_OFTEN)
    broker = await OneBroker(config, clock=SetClock()).start()
    try:
        first = claimed(exp=NOW_S + 60).encode()
        options = {"auth_method_name": "token", "auth_data": first, "feature_flags": REFRESHES}
        client = await WireClient.connect(broker.port, **options)
        broker.clock.now_s += 60  # type: ignore[attr-defined]
        await client.expect(TYPE.AUTH_CHALLENGE)
        client.write(client_commands.auth_response("Test", *BAD[name].in_connect.values()))
        assert BAD[name].said in (await client.expect(TYPE.ERROR)).message
        await client.expect_closed()
    finally:
        await broker.stop()


@pytest.mark.parametrize("name", BAD)
async def test_a_proxy_may_not_bring_a_bad_proof_of_its_client(name: str) -> None:
    config = replace(BrokerConfig(**settings(proxy_roles=("proxy",))), authenticate_original_auth_data=True)
    broker = await OneBroker(config, clock=SetClock()).start()
    try:
        said = await refusal(
            broker,
            auth_method_name="token",
            auth_data=claimed(sub="proxy").encode(),
            original_principal="root",
            original_auth_method=BAD[name].method,
            original_auth_data=BAD[name].data,
        )
        assert BAD[name].said in said
    finally:
        await broker.stop()


async def test_who_does_not_answer_is_closed() -> None:
    async with asking_broker(**LOOKS_OFTEN) as broker:
        client = await expired(broker, feature_flags=REFRESHES)
        await client.expect(TYPE.AUTH_CHALLENGE)
        await client.expect_closed()


async def test_who_cannot_be_asked_is_closed() -> None:
    async with asking_broker(**LOOKS_OFTEN, proxy_roles=("proxy",)) as broker:
        for options in (
            by_token("alice", expires_at_s=NOW_S + 60),
            by_token("proxy", expires_at_s=NOW_S + 60) | {"original_principal": "a", "feature_flags": REFRESHES},
        ):
            broker.clock.now_s = NOW_S  # type: ignore[attr-defined]
            client = await WireClient.connect(broker.port, **options)
            broker.clock.now_s += 60  # type: ignore[attr-defined]
            await client.expect_closed()
            assert not client.received


async def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    async with asking_broker() as broker:
        client = await WireClient.connect(broker.port, **by_token("alice"))
        client.write(client_commands.auth_response("Test", "token", token("admin").encode()))
        await client.settled()
        assert principal_of(broker) == Principal("alice")
