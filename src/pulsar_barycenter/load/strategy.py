"""What every strategy is: a frozen value of its settings, which decides by its arguments alone.

A strategy's module holds one class, with Pulsar's name of it as `name` and its settings as fields. `of` takes them from
the configuration; `decide`, whose arguments its role fixes (`shedding.shedder`, `placement.placer`,
`splitting.splitter`), takes the memory last and returns the next one. Memory is a value: None where nothing is
remembered.

Free of numpy, so that every broker can hold memories in documents.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

import msgspec

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

Memory = TypeVar("Memory")


class MemoryDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What shedders remember, each its own: smoothed usages (fractions); rounds running in which a gap was seen, by
    broker; rounds running out of balance, and when bundles left which broker (epoch ms)."""

    usage: dict[str, float] = {}
    low_hits: dict[str, int] = {}
    high_hits: dict[str, int] = {}
    rounds: int = 0
    unloaded_at: dict[str, int] = {}


class Strategy(ABC, Generic[Memory]):
    """A strategy with its settings put in."""

    __slots__ = ()

    name: ClassVar[str]
    """As configurations and reasons call it."""

    @classmethod
    @abstractmethod
    def of(cls, config: "BrokerConfig") -> Self:
        """Return the strategy with the settings of a configuration."""

    @abstractmethod
    def start(self) -> Memory:
        """Return what it remembers before its first decision."""

    def document(self, memory: Memory) -> MemoryDocument:
        """Return what it remembers as a document; empty unless it says otherwise."""
        return MemoryDocument()

    def remembered(self, document: MemoryDocument) -> Memory:
        """Return its part of a document."""
        return self.start()


class Remembered(msgspec.Struct, frozen=True):
    """What the strategy used last remembers; another one starts anew."""

    strategy: type[Strategy[Any]] | None = None
    memory: Any = None

    def of(self, strategy: Strategy[Memory]) -> Memory:
        """Return what `strategy` remembers."""
        if type(strategy) is not self.strategy:
            return strategy.start()
        memory: Memory = self.memory
        return memory

    def then(self, strategy: Strategy[Memory], memory: Memory) -> "Remembered":
        """Return this with what `strategy` remembers now."""
        if memory is self.memory and type(strategy) is self.strategy:
            return self
        return Remembered(type(strategy), memory)

    def document(self, strategy: Strategy[Any]) -> MemoryDocument:
        """Return what `strategy` remembers, as a document."""
        return strategy.document(self.of(strategy))


NOTHING_REMEMBERED: Final = Remembered()
