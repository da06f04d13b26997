"""A map that is a value: adding to it makes another one, at a price that hardly grows with its size."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_NOTHING: Final[Mapping[Any, Any]] = {}
_MERGE: Final = 128
"""Entries since the last merge; few, so that one more costs little however many there are."""


class GrowingMap(Mapping[_Key, _Value]):
    """Keys to values, none of which is None. `recent` entries stand above the `settled` ones; neither is changed."""

    __slots__ = ("recent", "settled")

    def __init__(self, settled: Mapping[_Key, _Value] = _NOTHING, recent: Mapping[_Key, _Value] = _NOTHING) -> None:
        self.settled = settled
        self.recent = recent

    def __getitem__(self, key: _Key) -> _Value:
        found = self.recent.get(key)
        return self.settled[key] if found is None else found

    def __contains__(self, key: object) -> bool:
        return key in self.recent or key in self.settled

    def __iter__(self) -> Iterator[_Key]:
        yield from self.settled
        yield from (key for key in self.recent if key not in self.settled)

    def __len__(self) -> int:
        return len(self.settled.keys() | self.recent.keys())

    def __bool__(self) -> bool:
        return bool(self.settled or self.recent)

    @property
    def most(self) -> int:
        """How many keys there are at the most: known without looking at them."""
        return len(self.settled) + len(self.recent)

    def get_or_none(self, key: _Key) -> _Value | None:
        """Return the value of `key`, None without one: what `get` does, without an exception within."""
        found = self.recent.get(key)
        return self.settled.get(key) if found is None else found

    def adding(self, key: _Key, value: _Value) -> Self:
        """Return the map with one entry more, or another value for a key that it has."""
        recent = {**self.recent, key: value}
        return type(self)(self.settled, recent) if len(recent) < _MERGE else type(self)({**self.settled, **recent})
