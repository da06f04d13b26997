"""Each metadata store compared with an obvious model: a dict per store, and sets of which session created which key."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from pulsar_barycenter.metadata.errors import BadVersionError, HasChildrenError, NotFoundError, OtherSessionError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, NotificationType
from support.metadata_backends import BACKENDS, Heard, open_backend

CLIENTS = st.integers(0, 1)
PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/b-c", "/a/b/c/d", "/b", "/b/c", "/ä"])
VERSIONS = st.sampled_from([None, MUST_NOT_EXIST, 0, 0, 1, 2])
VALUES = st.binary(max_size=3)


class Key:
    def __init__(self, value: bytes, creator: int, ephemeral: bool) -> None:
        self.value, self.version, self.creator, self.ephemeral = value, 0, creator, ephemeral


class StoreMachine(RuleBasedStateMachine):
    """Two clients of one store with arbitrary operations; `sessions` numbers their sessions."""

    backend_name: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.keys: dict[str, Key] = {}
        self.changes: list[tuple[str, str]] = []
        try:
            self.runner.run(self._open())
        except BaseException:  # among them that there is no such server here
            self._close()
            raise

    async def _open(self) -> None:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.backend = await self.stack.enter_async_context(open_backend(self.backend_name, Path(folder)))
        self.clients = [await self.backend.connect(60_000) for _ in range(2)]
        self.heard = [Heard.changes(client) for client in self.clients]
        self.sessions = [0, 1]

    def teardown(self) -> None:
        self.runner.run(self._compare_notifications())
        self._close()

    def _close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    async def _compare_notifications(self) -> None:
        """The client that stayed was notified of everything, in order, each key's creation and deletion with its
        ancestors'."""
        told = await self.heard[0].until(lambda told: len(self._keys_of(told)) >= len(self.changes))
        assert self._keys_of(told) == self.changes

    @staticmethod
    def _keys_of(told: list[Any]) -> list[tuple[str, str]]:
        return [(each.type.value, each.path) for each in told if each.type is not NotificationType.CHILDREN_CHANGED]

    @rule(client=CLIENTS, path=PATHS, value=VALUES, version=VERSIONS, ephemeral=st.booleans(), if_own=st.booleans())
    def put(self, client: int, path: str, value: bytes, version: int | None, ephemeral: bool, if_own: bool) -> None:
        key = self.keys.get(path)
        expected = self._put_error(key, version, if_own, client)
        put = self.clients[client].put(path, value, expected_version=version, ephemeral=ephemeral, if_own=if_own)
        stat = self._outcome(put, expected)
        if expected is not None:
            return
        if key is None:
            key = self.keys[path] = Key(value, self.sessions[client], ephemeral)
            self.changes.append(("created", path))
        else:
            key.value = value
            key.version += 1
            self.changes.append(("modified", path))
        assert (stat.path, stat.version, stat.ephemeral) == (path, key.version, key.ephemeral)
        assert stat.created_by_self == (key.creator == self.sessions[client])

    @rule(client=CLIENTS, path=PATHS, version=VERSIONS, if_own=st.booleans())
    def delete(self, client: int, path: str, version: int | None, if_own: bool) -> None:
        key = self.keys.get(path)
        expected: type[Exception] | None = NotFoundError
        if key is not None:
            if version is not None and version != key.version:
                expected = BadVersionError
            elif if_own and key.creator != self.sessions[client]:
                expected = OtherSessionError
            else:
                expected = HasChildrenError if any(other.startswith(path + "/") for other in self.keys) else None
        self._outcome(self.clients[client].delete(path, expected_version=version, if_own=if_own), expected)
        if expected is None:
            del self.keys[path]
            self.changes.append(("deleted", path))

    @rule()
    def reopen_second_client(self) -> None:
        """Its ephemeral keys are deleted, in the order of their paths."""
        self.runner.run(self.clients[1].close())
        for path in sorted(self.keys):
            if self.keys[path].ephemeral and self.keys[path].creator == self.sessions[1]:
                del self.keys[path]
                self.changes.append(("deleted", path))
        self.clients[1] = self.runner.run(self.backend.connect(60_000))
        self.sessions[1] = max(self.sessions) + 1

    @rule(client=CLIENTS)
    def read_all(self, client: int) -> None:
        async def read() -> None:
            store = self.clients[client]
            for path in {"/", *self.keys, "/missing", "/a"}:
                record, key = await store.get(path), self.keys.get(path)
                assert await store.exists(path) == (key is not None)
                if key is None:
                    assert record is None
                else:
                    assert (record.value, record.stat.version) == (key.value, key.version)
                    assert record.stat.created_by_self == (key.creator == self.sessions[client])
                prefix = path.rstrip("/") + "/"
                below = {other[len(prefix) :].split("/")[0] for other in self.keys if other.startswith(prefix)}
                assert await store.children(path) == sorted(below)

        self.runner.run(read())

    def _put_error(self, key: Key | None, version: int | None, if_own: bool, client: int) -> type[Exception] | None:
        if key is None:
            return None if version in (None, MUST_NOT_EXIST) else BadVersionError
        if version is not None and version != key.version:
            return BadVersionError
        return OtherSessionError if if_own and key.creator != self.sessions[client] else None

    def _outcome(self, operation: Any, expected: type[Exception] | None) -> Any:
        if expected is None:
            return self.runner.run(operation)
        with pytest.raises(expected) as raised:
            self.runner.run(operation)
        assert type(raised.value) is expected
        return None


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "zookeeper"])
def test_a_store_behaves_like_a_dict_with_versions(name):
    """ZooKeeper does not: it does not store the creator of persistent keys, notifies of parents, and takes empty
    ones for no keys."""
    machine = type(f"{name}Machine", (StoreMachine,), {"backend_name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=30, stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )
