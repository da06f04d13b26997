"""The keys of a memory store: values, versions, creators, and the tree of their paths. No I/O, no clock."""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from pulsar_barycenter.metadata.conditions import PutOptions, check_delete, check_guard, check_put, sequential_path
from pulsar_barycenter.metadata.store import Guard, Notification, NotificationType, Record, Stat, ancestors


@dataclass(slots=True)
class _Key:
    value: bytes
    version: int
    created_at_ms: int
    modified_at_ms: int
    ephemeral: bool
    session: int
    """The session that created the key."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Keys that `KeyTable.take` has removed, and their deletions as notifications."""

    keys: dict[str, _Key]
    changes: list[Notification]


class KeyTable:
    """The keys of a memory store with their values, and the reads and writes of them."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._child_names: dict[str, Counter[str]] = {}
        self._last_numbers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, path: str) -> bool:
        return path in self._keys

    def get(self, path: str, *, session: int | None) -> Record | None:
        """Return the record at `path`; None if the key does not exist. `session` is the session that reads:
        `created_by_self` in the stat is True if it created the key.
        """
        key = self._keys.get(path)
        return None if key is None else Record(key.value, _stat(path, key, session))

    def children(self, path: str) -> list[str]:
        return sorted(self._child_names.get(path, ()))

    def put(
        self, path: str, value: bytes, options: PutOptions, *, session: int, now_ms: int
    ) -> tuple[Stat, Notification]:
        """Write a key as `MetadataStore.put` does, in the session `session`. Return its stat, and the notification to
        send to clients.
        """
        self._check(options.guard)
        if options.sequential:
            self._last_numbers[path] += 1
            path = sequential_path(path, self._last_numbers[path])
        key = self._keys.get(path)
        if key is None:
            check_put(path, None, options, own=False)
            key = self._keys[path] = _Key(value, 0, now_ms, now_ms, options.ephemeral, session)
            self._count_names(path, 1)
            return _stat(path, key, session), Notification(NotificationType.CREATED, path)
        check_put(path, key.version, options, own=key.session == session)
        key.value = value
        key.version += 1
        key.modified_at_ms = now_ms
        return _stat(path, key, session), Notification(NotificationType.MODIFIED, path)

    def delete(
        self,
        path: str,
        *,
        session: int,
        expected_version: int | None = None,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Notification:
        """Delete a key as `MetadataStore.delete` does, in the session `session`. Return the notification to send to
        clients.
        """
        self._check(guard)
        key = self._keys.get(path)
        check_delete(
            path,
            None if key is None else key.version,
            expected=expected_version,
            if_own=if_own,
            own=key is not None and key.session == session,
            has_children=path in self._child_names,
        )
        return self._remove(path)

    def _check(self, guard: Guard | None) -> None:
        key = None if guard is None else self._keys.get(guard.path)
        check_guard(guard, None if key is None else key.version)

    def delete_ephemerals(self, session: int) -> list[Notification]:
        """Delete the ephemeral keys that `session` created. Return the notifications to send to clients, ordered by
        path.
        """
        own = sorted(path for path, key in self._keys.items() if key.ephemeral and key.session == session)
        return [self._remove(path) for path in own]

    def take(self, below: str) -> "Taken":
        """Simulate a loss of data: remove all keys below the path `below`, but not the key `below` itself. Return them,
        for `put_back`.
        """
        paths = sorted(path for path in self._keys if path.startswith(f"{below}/"))
        keys = {path: self._keys[path] for path in paths}
        return Taken(keys, [self._remove(path) for path in paths])

    def put_back(self, taken: "Taken", sessions: Container[int]) -> list[Notification]:
        """Restore keys that `take` has removed, and return the notifications to send to clients. Keys that exist again,
        and ephemeral keys of sessions that are not in `sessions`, are not restored.
        """
        again = []
        for path, key in taken.keys.items():
            if path not in self._keys and (not key.ephemeral or key.session in sessions):
                self._keys[path] = key
                self._count_names(path, 1)
                again.append(Notification(NotificationType.CREATED, path))
        return again

    def _remove(self, path: str) -> Notification:
        del self._keys[path]
        self._count_names(path, -1)
        return Notification(NotificationType.DELETED, path)

    def _count_names(self, path: str, change: int) -> None:
        """Update the lists of children after `path` was created (`change` is 1) or deleted (-1): for each key above it,
        the number of keys at and below each child.
        """
        below = path
        for parent in [*ancestors(path), "/"] if path != "/" else []:
            name = below[len(parent) :].lstrip("/")
            names = self._child_names.setdefault(parent, Counter())
            names[name] += change
            if not names[name]:
                del names[name]
            if not names:
                del self._child_names[parent]
            below = parent


def _stat(path: str, key: _Key, session: int | None) -> Stat:
    return Stat(path, key.version, key.created_at_ms, key.modified_at_ms, key.ephemeral, key.session == session)
