"""What a roll needs of its surroundings: the cluster, the hooks of the operator, the journal; and its options."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.operations import executor
from pulsar_barycenter.operations.executor import Pace, Tell
from pulsar_barycenter.operations.own_balancing import ControlledSettings
from pulsar_barycenter.operations.rolling.plan import MayServe
from pulsar_barycenter.operations.rolling.progress import RollEntry
from pulsar_barycenter.operations.rolling.reports import SeenReport

_USUAL_PACE: Final = Pace(looks_back=False)
UNKNOWN: Final = "unknown"
"""The identity in the journal if the cluster does not return one: it distinguishes no process from the next."""


class RollStopped(Exception):  # noqa: N818 - it is no error if an operator asked for it
    """The roll has stopped before its end; the text says why and what to do."""


class RolledCluster(executor.Cluster, ControlledSettings, Protocol):
    """What a roll needs of a running cluster. Every method raises NotNowError or RefusedError."""

    async def leader(self) -> str: ...
    async def owned(self, broker: str) -> frozenset[str]: ...

    async def loads(self) -> Mapping[str, float]:
        """Return the throughput of each bundle in bytes/s, in + out; bundles of unknown throughput are left out."""
        ...

    async def may_serve(self, brokers: Collection[str]) -> MayServe:
        """Return a function that returns for a bundle those of `brokers` that may serve it by the isolation policies; a
        drained broker may serve no bundle.
        """
        ...

    async def groups(self, namespaces: Collection[str]) -> Mapping[str, str]:
        """Return the anti-affinity group of each of `namespaces` that has one."""
        ...

    async def is_healthy(self, broker: str) -> bool:
        """Return whether the broker says at its own address that it is healthy."""
        ...

    async def resolves(self, broker: str) -> bool:
        """Return whether the host name of the broker can be resolved to an address on this machine."""
        ...

    async def identity(self, broker: str) -> str:
        """Return a text that identifies the broker's process: it differs after a restart of the broker; blank if the
        process is not known.
        """
        ...

    async def report(self, broker: str) -> SeenReport: ...


class Hooks(Protocol):
    """Restarts, ends and starts brokers for a roll: by commands, or by asking a person.

    Raises:
        RollStopped: the hook failed or took too long.
    """

    async def restart(self, broker: str) -> None: ...
    async def start(self, broker: str) -> None: ...


class RollJournal(Protocol):
    """The journal of a roll; an entry is on the disk when `append` returns."""

    def read(self) -> Sequence[RollEntry]: ...
    def append(self, entry: RollEntry) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOptions:
    """The options of a roll. `room` is how much more than an equal share a receiver may have, as in `limits_of`.
    `back_s` is the time limit (seconds) for a broker to be back in service, `reports_s` the one for its report to
    arrive; after it the roll stops. If `leaves_behind` is True, bundles that no other broker may serve stay on their
    broker while it restarts; otherwise the roll stops.
    """

    pace: Pace = _USUAL_PACE
    room: float = 1.2
    back_s: float = 600.0
    reports_s: float = 600.0
    leaves_behind: bool = False


@dataclass(slots=True)
class RollTold:
    """The functions that a roll calls to report its progress: `say` is called with lines of text, `move` with each
    state that a move reaches.
    """

    say: Callable[[str], None]
    move: Tell
