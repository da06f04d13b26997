"""The contract of one broker in a test cluster, and of the brokers together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class ClusterBroker(Protocol):
    """One broker of a test cluster; brokers are counted from 0.

    >>> from pulsar_barycenter.testing import Cluster
    >>> with Cluster(in_process=True) as cluster:
    ...     broker = cluster.brokers[0]
    ...     broker.index, broker.is_running, broker.service_url == cluster.service_url
    (0, True, True)
    """

    @property
    def index(self) -> int:
        """The index of this broker in `cluster.brokers`."""
        ...

    @property
    def service_url(self) -> str:
        """The broker's address for Pulsar clients (binary protocol), `pulsar://127.0.0.1:PORT`. It stays the same when
        the broker starts again.
        """
        ...

    @property
    def web_url(self) -> str:
        """The broker's HTTP address, `http://127.0.0.1:PORT`. It stays the same when the broker starts again."""
        ...

    @property
    def log(self) -> Path:
        """The path of the broker's log file, which has lines of JSON."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether the broker runs; a paused broker counts as running."""
        ...


class RunningBroker(ClusterBroker, Protocol):
    """A broker that a test cluster can start, stop, kill, pause and resume.

    Raises (all methods except `start` and `stop`):
        NotInProcessError: the broker is inside the test process.
    """

    async def start(self) -> None:
        """Start the broker and return when it serves clients. If it runs already, do nothing."""
        ...

    async def stop(self) -> None:
        """Let the broker leave the cluster and end, and return when it has ended. If it does not run, do nothing."""
        ...

    async def kill(self) -> None:
        """End the broker immediately with SIGKILL, as a crash would."""
        ...

    def pause(self) -> None:
        """Stop all threads of the broker until `resume`: it keeps its connections open and answers no request."""
        ...

    def resume(self) -> None:
        """Let a paused broker continue."""
        ...


class Brokers(Protocol):
    """All brokers of a test cluster."""

    @property
    def brokers(self) -> Sequence[RunningBroker]: ...

    async def start(self) -> None:
        """Start all brokers, and return when all of them serve clients. If one fails, end the others and raise the
        error of the failed one.
        """
        ...

    async def stop(self) -> None:
        """End all brokers in order. Idempotent."""
        ...

    async def kill(self) -> None:
        """End all brokers of the cluster immediately. Idempotent."""
        ...
