"""A map of bounded size: it forgets what was put into it longest ago."""

from collections.abc import Callable, ItemsView
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A map of at most `most` keys. If a new key exceeds this number, the map removes the key that was put longest ago.

    Putting a key again makes it the newest. Reading a key does not.
    """

    __slots__ = ("_kept", "_most", "get")

    get: Callable[[_Key], _Value | None]
    """Return the value of a key, None if it is not kept."""

    def __init__(self, most: int) -> None:
        self._kept: dict[_Key, _Value] = {}
        self._most = most
        self.get = self._kept.get  # the dict's own: caches of hot paths read far more often than they put

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def put(self, key: _Key, value: _Value) -> None:
        """Store `value` under `key`, which becomes the newest key; remove the oldest key if there are now more than
        `most`.
        """
        self._kept.pop(key, None)
        self._kept[key] = value
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def pop(self, key: _Key) -> _Value | None:
        """Remove a key, and return its value; return None if the map does not have the key."""
        return self._kept.pop(key, None)

    def clear(self) -> None:
        self._kept.clear()

    def items(self) -> ItemsView[_Key, _Value]:
        """Return a view of the keys with their values, the oldest first."""
        return self._kept.items()
