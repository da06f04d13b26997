"""Errors of a test cluster, one shallow tree.

TestClusterError
├── UnknownBrokerError   the cluster has no such broker
├── NotInProcessError    a broker inside the test process cannot do this
└── NotBalancedError     the cluster was not balanced in time
"""


class TestClusterError(Exception):
    """A test requested something that its cluster cannot do; the text says what to do instead.

    >>> from pulsar_barycenter.testing import Cluster
    >>> try:
    ...     Cluster(config={"defaultNumberOfNamespaceBundle": 8})
    ... except TestClusterError as error:
    ...     print(error)
    config: 'defaultNumberOfNamespaceBundle' is not a key of broker.conf; did you mean defaultNumberOfNamespaceBundles?
    """

    __test__ = False  # pytest collects no tests from it


class UnknownBrokerError(TestClusterError):
    """The cluster has no such broker.

    >>> from pulsar_barycenter.testing import Cluster
    >>> with Cluster(in_process=True) as cluster:
    ...     try:
    ...         cluster.restart(1)
    ...     except UnknownBrokerError as error:
    ...         print(error)
    the cluster has no broker 1: give an index from 0 to 0, or a broker of cluster.brokers
    """

    def __init__(self, broker: object, count: int) -> None:
        super().__init__(
            f"the cluster has no broker {broker!r}: give an index from 0 to {count - 1}, or a broker of cluster.brokers"
        )


class NotInProcessError(TestClusterError):
    """A broker that runs inside the test process cannot be killed, paused or resumed.

    >>> from pulsar_barycenter.testing import Cluster
    >>> with Cluster(in_process=True) as cluster:
    ...     try:
    ...         cluster.kill(0)
    ...     except NotInProcessError as error:
    ...         print(str(error).partition(";")[0])
    a broker inside the test process cannot be killed
    """

    def __init__(self, action: str) -> None:
        super().__init__(
            f"a broker inside the test process cannot be {action}; use Cluster(brokers=1) without in_process, "
            "whose broker is a process"
        )


class NotBalancedError(TestClusterError, TimeoutError):
    """The cluster was not balanced within the time limit; it is a `TimeoutError`, too.

    >>> try:
    ...     raise NotBalancedError(60, "the usages are 20 % and 80 %")
    ... except TimeoutError as error:
    ...     print(error)
    the cluster was not balanced within 60 s: the usages are 20 % and 80 %
    """

    def __init__(self, timeout_s: float, state: str) -> None:
        super().__init__(f"the cluster was not balanced within {timeout_s:g} s: {state}")
