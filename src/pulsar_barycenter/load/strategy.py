"""The contract of every strategy: a frozen value of its settings, which decides by its arguments alone.

The module of a strategy has one class, with Pulsar's class name as `name` and its settings as fields. `of` reads these
from the configuration. `decide` gets the memory and returns the next one; its other arguments depend on the role
(`shedding.shedder`, `placement.placer`, `splitting.splitter`). A memory is a value; None for a strategy without one.

Needs no numpy, so that every broker can read and write memories in documents.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

import msgspec

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

Memory = TypeVar("Memory")


class MemoryDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The memory of a shedder in the form in which it is stored as JSON. Each shedder uses only some of the fields.

    By broker: `usage` is the smoothed usage (a moving average, as a fraction); `low_hits` and `high_hits` are the
    numbers of rounds in a row in which the difference in usage to another broker reached the AvgShedder's low or high
    threshold; `unloaded_at` is the time of the last unload (epoch ms). `rounds` is the number of rounds in a row in
    which brokers were out of balance.
    """

    usage: dict[str, float] = {}
    low_hits: dict[str, int] = {}
    high_hits: dict[str, int] = {}
    rounds: int = 0
    unloaded_at: dict[str, int] = {}


class Strategy(ABC, Generic[Memory]):
    """A strategy of load balancing, with its settings. Base class of the strategies that shed, place or split."""

    __slots__ = ()

    name: ClassVar[str]
    """The name in configurations and reasons."""

    @classmethod
    @abstractmethod
    def of(cls, config: "BrokerConfig") -> Self:
        """Return the strategy with the settings of a configuration."""

    @abstractmethod
    def start(self) -> Memory:
        """Return the initial memory of the strategy, for its first decision."""

    def document(self, memory: Memory) -> MemoryDocument:
        """Return `memory` in a form that can be stored. The result is an empty document unless the strategy overrides
        this method.
        """
        return MemoryDocument()

    def remembered(self, document: MemoryDocument) -> Memory:
        """Return the memory that is stored in `document`, a result of the method `document`. The result is the initial
        memory unless the strategy overrides this method.
        """
        return self.start()


class Remembered(msgspec.Struct, frozen=True):
    """The memory of one strategy: the one that was used last. Any other strategy starts with its initial memory, even
    if it was used before.
    """

    strategy: type[Strategy[Any]] | None = None
    memory: Any = None

    def of(self, strategy: Strategy[Memory]) -> Memory:
        """Return the memory of `strategy` if it is the strategy used last, else the initial memory of `strategy`."""
        if type(strategy) is not self.strategy:
            return strategy.start()
        memory: Memory = self.memory
        return memory

    def then(self, strategy: Strategy[Memory], memory: Memory) -> "Remembered":
        """Return a `Remembered` in which `strategy` is the strategy used last, and `memory` its memory."""
        if memory is self.memory and type(strategy) is self.strategy:
            return self
        return Remembered(type(strategy), memory)

    def document(self, strategy: Strategy[Any]) -> MemoryDocument:
        """Return the memory of `strategy` as a document that can be stored."""
        return strategy.document(self.of(strategy))


NOTHING_REMEMBERED: Final = Remembered()
