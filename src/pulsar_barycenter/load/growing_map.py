"""A map that is a value: adding to it makes another one, at a price that does not grow with its size."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Generic, Self, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_NOTHING: Final[Mapping[Any, Any]] = {}
_SPARE: Final = 16
"""Additions of keys that were there, beyond as many as there are keys, until the values of before are dropped."""


class _Additions(Generic[_Key, _Value]):
    """All that was added to maps that grew from one another, and how many additions these were.

    Of each key it has the number of its last addition, the value, and the same of the addition before, or None.
    """

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: dict[_Key, tuple[int, _Value, Any]] = {}


class GrowingMap(Mapping[_Key, _Value]):
    """Keys to values, none of which is None: those of `first`, which nobody changes, and what was added.

    Maps that grow from one another share what was added to any of them, and each counts its first so many additions.
    So growing the latest one copies nothing, but for a copy now and then that drops what was overwritten; a second one
    that grows from the same map copies all.
    """

    __slots__ = ("_added", "_count", "_first")

    def __init__(self, first: Mapping[_Key, _Value] = _NOTHING) -> None:
        self._first = first
        self._added: _Additions[_Key, _Value] = _Additions()
        self._count = 0

    def __getitem__(self, key: _Key) -> _Value:
        found = self.get_or_none(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get_or_none(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[_Key]:
        yield from self._first
        for key in list(self._added.last):
            if key not in self._first and key in self:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self._count or self._first)

    @property
    def most(self) -> int:
        """How many keys there are at the most: known without looking at them."""
        return len(self._first) + self._count

    def get_or_none(self, key: _Key) -> _Value | None:
        """Return the value of `key`, None without one: what `get` does, without an exception within."""
        added = self._added.last.get(key)
        while added is not None:
            number, value, before = added
            if number <= self._count:
                return value
            added = before
        return self._first.get(key)

    def is_more_by(self, before: "GrowingMap[_Key, _Value]", keys: Collection[_Key]) -> bool:
        """Tell whether this map is known to be another one with these keys added, each once, and nothing else."""
        if self._added is not before._added or self._first is not before._first:
            return False
        if self._count != before._count + len(keys):
            return False
        last = (self._added.last.get(key) for key in keys)
        return all(added is not None and before._count < added[0] <= self._count for added in last)

    def adding(self, key: _Key, value: _Value) -> Self:
        """Return the map with one entry more, or another value for a key that it has."""
        added = self._added
        is_long = added.count > len(self._first) + 2 * len(added.last) + _SPARE
        if added.count != self._count or is_long:
            return type(self)(dict(self)).adding(key, value)
        added.count += 1
        added.last[key] = added.count, value, added.last.get(key)
        grown = object.__new__(type(self))
        grown._first, grown._added, grown._count = self._first, added, added.count
        return grown
