"""An immutable map: adding an entry returns another map, in time that does not depend on the size."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Generic, Self, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_NOTHING: Final[Mapping[Any, Any]] = {}
_SPARE: Final = 16
"""How many overwriting additions, beyond twice the number of keys, are kept before old values are dropped."""


class _Additions(Generic[_Key, _Value]):
    """The additions that several maps share, and the number of these additions. The maps were made from one another by
    adding entries.

    `last` has for each key its newest addition: the number of the addition, the value, and the addition of the same key
    before it (None: there is none).
    """

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: dict[_Key, tuple[int, _Value, Any]] = {}


class GrowingMap(Mapping[_Key, _Value]):
    """An immutable map, in which no value is None. It has the entries of the map `first`, which the caller must not
    change, and the entries that were added with `adding`.

    All maps that were made from one another with `adding` share one store of additions; each map uses the additions 1
    to `_count` of it. So adding to the newest map copies nothing, except for an occasional copy that drops overwritten
    values. Adding to an older map copies all entries.
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
        """An upper bound of the number of keys of the map, computed in constant time."""
        return len(self._first) + self._count

    def get_or_none(self, key: _Key) -> _Value | None:
        """Return the value of `key`, or None if the map does not have the key. The result is that of `get`, but this
        method is faster, because it raises no exception internally.
        """
        added = self._added.last.get(key)
        while added is not None:
            number, value, before = added
            if number <= self._count:
                return value
            added = before
        return self._first.get(key)

    def is_more_by(self, before: "GrowingMap[_Key, _Value]", keys: Collection[_Key]) -> bool:
        """Return True only if this map consists of `before` and exactly one addition for each of `keys`. False: this is
        not so, or it cannot be found out quickly.
        """
        if self._added is not before._added or self._first is not before._first:
            return False
        if self._count != before._count + len(keys):
            return False
        last = (self._added.last.get(key) for key in keys)
        return all(added is not None and before._count < added[0] <= self._count for added in last)

    def adding(self, key: _Key, value: _Value) -> Self:
        """Return another map: this one with one more entry, or with a new value for an existing key."""
        added = self._added
        is_long = added.count > len(self._first) + 2 * len(added.last) + _SPARE
        if added.count != self._count or is_long:
            return type(self)(dict(self)).adding(key, value)
        added.count += 1
        added.last[key] = added.count, value, added.last.get(key)
        grown = object.__new__(type(self))
        grown._first, grown._added, grown._count = self._first, added, added.count
        return grown
