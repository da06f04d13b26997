"""The state machine of producer access modes: which producers attach to a topic, which wait, which are fenced.

It is pure: it takes events and returns actions, and `producer_admission` performs them. A topic is in one of four
situations:

| situation | meaning | SHARED arrives | EXCLUSIVE | WAIT_FOR_EXCLUSIVE | EXCLUSIVE_WITH_FENCING |
|---|---|---|---|---|---|
| FREE | no producer; none waits | attaches | claims | claims | claims |
| SHARED | shared producers are attached | attaches; refused if one waits | refused | waits | fences all, claims |
| CLAIMED | a producer has a claim; its epoch is being stored | refused | refused | waits | fences all, claims |
| HELD | an exclusive producer is attached | refused | refused | waits | fences all, claims |

A producer with a claim is not attached yet. It takes an epoch (`take_epoch`), and it is attached when the epoch is
stored (`stored`). Until then it may be fenced, or leave, like any other producer. When the situation becomes FREE, the
first producer in the queue claims the topic in the same step. So no turn is lost: the producer with the claim either
attaches, or it leaves and the next producer gets the claim.

Rules for epochs:

- They only rise. A producer that attached before brings the epoch that it had. If another producer had the topic
  exclusively since then, the brought epoch is lower than that of the topic, and the producer is refused.
- A topic without an epoch takes the first epoch that a producer brings: a broker that stores no epochs wrote it.
- An epoch that was taken once is not taken again, even if storing it failed: it is not known whether it was stored.
- The epoch of a producer that comes back is stored again. This proves that no other broker has the topic by now.

Source: Pulsar's PIP-68 and PIP-161 and `AbstractTopic.incrementTopicEpochIfNeeded`. Two things differ: a fencing
producer with an old epoch is refused before it fences others, and a brought epoch is compared again when its producer's
turn comes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from pulsar_barycenter.broker.clients.producer import AccessMode
from pulsar_barycenter.broker.errors import (
    ExclusiveProducerError,
    NotAllowedError,
    ProducerFencedError,
    ServiceError,
    TopicFencedError,
)
from pulsar_barycenter.naming.topic import TopicName

HIGHEST_BROUGHT: Final = 2**62
"""The highest epoch that a topic accepts from a producer. Epochs grow by one, so no topic reaches it by counting, or
the end of 64 bits from there.
"""
_HIGHEST_STORED: Final = 2**63 - 2**32
"""The highest epoch that is accepted in the topic's property, which users can set. From this number the epoch can still
grow.
"""
_EPOCH: Final = re.compile("[0-9]{1,19}", re.ASCII)

EPOCH_PROPERTY: Final = "pulsar.topic.epoch"
"""The property of a topic's ledger that has the epoch, as in Pulsar."""


def stored_epoch(topic: TopicName, properties: Mapping[str, str]) -> int | None:
    """Return the epoch of the last exclusive producer, read from the properties of a topic's ledger; None if it is not
    there.

    Raises:
        NotAllowedError: the property is not a valid epoch.
    """
    text = properties.get(EPOCH_PROPERTY)
    if text is None:
        return None
    if _EPOCH.fullmatch(text) is None or int(text) > _HIGHEST_STORED:
        raise NotAllowedError(
            f"Topic {topic} takes no exclusive producer: its property {EPOCH_PROPERTY} is {text[:40]!r}, and must be a "
            f"number from 0 to {_HIGHEST_STORED}. Delete the topic and create it without this property."
        )
    return int(text)


class Claimant(Protocol):
    """The attributes of a producer that the state machine reads. Two producers are equal only if they are the same
    object.
    """

    @property
    def name(self) -> str: ...
    @property
    def access_mode(self) -> AccessMode: ...


P = TypeVar("P", bound=Claimant)


class Situation(Enum):
    FREE = "free"
    SHARED = "shared"
    CLAIMED = "claimed"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Attach(Generic[P]):
    """A result of the state machine: the caller must attach the shared producer `producer`."""

    producer: P


@dataclass(frozen=True, slots=True)
class Claim(Generic[P]):
    """A result of the state machine: `producer` is the next to get exclusive access. The caller must call `take_epoch`,
    store the epoch, and then call `stored`, which attaches the producer. `brought` is the epoch with which it came,
    None without one.
    """

    producer: P
    brought: int | None


@dataclass(frozen=True, slots=True)
class Refuse(Generic[P]):
    """A result of the state machine: the caller must refuse `producer`, which has just arrived or was waiting, with
    this error.
    """

    producer: P
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Fence(Generic[P]):
    """A result of the state machine: the caller must close the attached `producer`, because another one fences it."""

    producer: P


Action: TypeAlias = Attach[P] | Claim[P] | Refuse[P] | Fence[P]
"""The actions that the state machine returns. A producer that arrived and gets no action has to wait."""


class ProducerAccess(Generic[P]):
    """The state machine that decides which producers of one topic may attach. Its methods return actions, which the
    caller must carry out in order. `epoch` is the epoch of the last exclusive producer, None if there was none.
    """

    __slots__ = ("_claim", "_highest", "_holder", "_shared", "_taken", "_topic", "_waiting", "epoch")

    def __init__(self, topic: TopicName, *, epoch: int | None = None, shared: Iterable[P] = ()) -> None:
        """Begin with `epoch`, which is stored with the topic, and with the producers in `shared`, which are attached
        now and are all shared ones.
        """
        self.epoch = epoch
        self._topic = topic
        self._highest = -1 if epoch is None else epoch
        self._shared: dict[P, None] = dict.fromkeys(shared)
        self._claim: Claim[P] | None = None
        self._taken: int | None = None
        self._holder: P | None = None
        self._waiting: dict[P, int | None] = {}

    @property
    def situation(self) -> Situation:
        if self._holder is not None:
            return Situation.HELD
        if self._claim is not None:
            return Situation.CLAIMED
        return Situation.SHARED if self._shared else Situation.FREE

    @property
    def holder(self) -> P | None:
        """The exclusive producer that is attached, None if there is none."""
        return self._holder

    @property
    def waiting(self) -> tuple[P, ...]:
        """The producers that wait for the topic, in the order of their turns."""
        return tuple(self._waiting)

    # ---- events ----

    def arrive(self, producer: P, brought: int | None = None) -> list[Action[P]]:
        """Decide about a producer that requests to attach. `brought` is the epoch that it had when it was attached to
        the topic before, None if it was not. Without an action for `producer` in the result, it has to wait.
        """
        if (error := self._refusal(producer, brought)) is not None:
            return [Refuse(producer, error)]
        if producer.access_mode is AccessMode.SHARED:
            self._shared[producer] = None
            return [Attach(producer)]
        if producer.access_mode is AccessMode.EXCLUSIVE_WITH_FENCING:
            return [*self._fence_all(producer), self._give(producer, brought)]
        if self.situation is Situation.FREE:
            return [self._give(producer, brought)]
        self._waiting[producer] = brought
        return []

    def succeed(self, former: P, producer: P, brought: int | None = None) -> list[Action[P]]:
        """Decide about `producer`, with which a reconnected client replaces its own attached producer `former`.
        `brought` is as in `arrive`.

        `former` is removed in each case. If `former` had exclusive access, and `producer` is not shared and `brought`
        is not outdated, `producer` gets exclusive access next, before all producers that wait. Otherwise the result is
        as if `former` had left and `producer` arrived after that.
        """
        keeps = former is self._holder and producer.access_mode is not AccessMode.SHARED
        if not keeps or self._is_stale(brought):
            return [*self.leave(former), *self.arrive(producer, brought)]
        self._holder = None
        return [self._give(producer, brought)]

    def take_epoch(self, producer: P) -> int | None:
        """Return the epoch that `producer` has to store before it is attached. Return None if it is not the next to get
        exclusive access any more, because it was fenced or left.

        The epoch is the one that the producer brought, if this is the topic's present epoch, or the topic has none.
        Otherwise it is the next higher epoch.
        """
        if self._claim is None or self._claim.producer is not producer:
            return None
        brought = self._claim.brought
        is_known = brought is not None and brought == self.epoch == self._highest
        if brought is not None and (is_known or self._highest < 0):
            self._highest = brought
        else:
            self._highest += 1
        self._taken = self._highest
        return self._taken

    def stored(self, producer: P) -> bool:
        """Record that the epoch of `producer` is stored. Return True: the producer is attached and has exclusive
        access. Return False if it was fenced or left in the meantime; then it is not attached.
        """
        if self._claim is None or self._claim.producer is not producer:
            return False
        self._holder, self.epoch, self._claim = producer, self._taken, None
        return True

    def leave(self, producer: P) -> list[Action[P]]:
        """Remove a producer that detached, stopped waiting, or could not store its epoch. Return the actions that
        follow, for example that the next waiting producer gets exclusive access. Idempotent.
        """
        self._shared.pop(producer, None)
        self._waiting.pop(producer, None)
        if self._holder is producer:
            self._holder = None
        if self._claim is not None and self._claim.producer is producer:
            self._claim = None
        return self._next()

    def close(self) -> list[Action[P]]:
        """Return the actions that refuse all waiting producers, because the topic is being closed. There are no actions
        for attached producers: the topic itself closes them.
        """
        refused: list[Action[P]] = [
            Refuse(producer, TopicFencedError(self._topic, "the topic was closed")) for producer in self._waiting
        ]
        self._waiting.clear()
        self._shared.clear()
        self._claim = self._holder = None
        return refused

    # ---- decisions ----

    def _refusal(self, producer: P, brought: int | None) -> ServiceError | None:
        if brought is not None and brought > HIGHEST_BROUGHT and self.epoch is None:
            return NotAllowedError(f"The producer brought epoch {brought}, which topic {self._topic} never had")
        mode = producer.access_mode
        if mode is AccessMode.SHARED:
            return self._refusal_of_shared()
        if self._is_stale(brought):
            return self._displaced(producer, brought)
        if mode is AccessMode.EXCLUSIVE and self.situation is not Situation.FREE:
            return ProducerFencedError(f"Topic {self._topic} has {self._attached()}")
        return None

    def _refusal_of_shared(self) -> ServiceError | None:
        if self.situation in (Situation.HELD, Situation.CLAIMED):
            return ExclusiveProducerError(self._topic, f"the topic has {self._attached()}")
        if self._waiting:
            first = next(iter(self._waiting))
            return ExclusiveProducerError(self._topic, f"the producer {first.name!r} waits for exclusive access")
        return None

    def _attached(self) -> str:
        exclusive = self._holder or (self._claim.producer if self._claim is not None else None)
        if exclusive is not None:
            return f"the exclusive producer {exclusive.name!r}"
        return f"{len(self._shared)} shared producer{'s' if len(self._shared) > 1 else ''}"

    def _is_stale(self, brought: int | None) -> bool:
        return brought is not None and self.epoch is not None and brought < self.epoch

    def _displaced(self, producer: P, brought: int | None) -> ProducerFencedError:
        return ProducerFencedError(
            f"Producer {producer.name!r} had topic {self._topic} under epoch {brought}; "
            f"another producer had it since, under epoch {self.epoch}"
        )

    def _fence_all(self, by: P) -> list[Action[P]]:
        fenced = f"Producer {by.name!r} took topic {self._topic} over"
        actions: list[Action[P]] = [Refuse(producer, ProducerFencedError(fenced)) for producer in self._waiting]
        attached = [*self._shared, *([self._holder] if self._holder is not None else [])]
        actions += [Fence(producer) for producer in attached]
        self._waiting.clear()
        self._shared.clear()
        self._claim = self._holder = None  # a producer with a claim learns this from `stored`
        return actions

    def _give(self, producer: P, brought: int | None) -> Claim[P]:
        self._claim = Claim(producer, brought)
        return self._claim

    def _next(self) -> list[Action[P]]:
        actions: list[Action[P]] = []
        while self._waiting and self.situation is Situation.FREE:
            producer = next(iter(self._waiting))
            brought = self._waiting.pop(producer)
            if self._is_stale(brought):
                actions.append(Refuse(producer, self._displaced(producer, brought)))
            else:
                actions.append(self._give(producer, brought))
        return actions
