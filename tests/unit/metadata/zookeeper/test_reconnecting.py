"""The time between two attempts to reach a ZooKeeper: every wait of one is bounded, and so is the pause."""

from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

from pulsar_barycenter.metadata.zookeeper.recursive_client import MAX_RECONNECT_S, RecursiveClient
from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import ZooKeeperSettings


def client_of(timeout_s: float) -> RecursiveClient:
    return RecursiveClient(
        "127.0.0.1:1",
        "/",
        timeout_s=timeout_s,
        settings=ZooKeeperSettings(),
        on_armed=lambda armed: None,
        on_event=lambda kind, path: None,
    )


@pytest.mark.parametrize(("session_s", "step_s"), [(9.0, 3.0), (30.0, 5.0)])
def test_an_attempt_waits_for_no_session_timeout(
    monkeypatch: pytest.MonkeyPatch, session_s: float, step_s: float
) -> None:
    """Neither for the connection nor for an answer; kazoo asks for a whole one each time."""
    waits: list[float] = []
    monkeypatch.setattr(
        SequentialThreadingHandler, "create_connection", lambda self, **options: waits.append(options["timeout"])
    )
    monkeypatch.setattr(ConnectionHandler, "_invoke", lambda self, timeout, request, xid=None: waits.append(timeout))
    client = client_of(session_s)
    client.handler.create_connection(address=("127.0.0.1", 1), timeout=session_s, use_ssl=False)
    client._connection._invoke(session_s, None)
    assert waits == [step_s, step_s]


def test_pauses_grow_to_their_bound_and_not_beyond() -> None:
    pauses: list[float] = []
    retry = client_of(10)._connection.retry_sleeper.copy()
    retry.interrupt = None
    retry.sleep_func = pauses.append

    def attempt() -> Any:
        if len(pauses) < 200:
            raise ConnectionLoss
        return "connected"

    assert retry(attempt) == "connected"
    assert MAX_RECONNECT_S / 4 < max(pauses) <= MAX_RECONNECT_S
