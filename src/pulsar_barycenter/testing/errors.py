"""Errors of a test cluster, one shallow tree.

TestClusterError
├── UnknownBrokerError   the cluster has no such broker
├── NotInProcessError    a broker inside the test process cannot do this
└── NotBalancedError     the cluster was not balanced in time
"""


class TestClusterError(Exception):
    """A test requested something that its cluster cannot do; the text says what to do instead."""

    __test__ = False  # pytest collects no tests from it


class UnknownBrokerError(TestClusterError):
    """The cluster has no such broker."""

    def __init__(self, broker: object, count: int) -> None:
        super().__init__(
            f"the cluster has no broker {broker!r}: give an index from 0 to {count - 1}, or a broker of cluster.brokers"
        )


class NotInProcessError(TestClusterError):
    """A broker inside the test process cannot do this."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"a broker inside the test process cannot be {action}; use Cluster(brokers=1) without in_process, "
            "whose broker is a process"
        )


class NotBalancedError(TestClusterError, TimeoutError):
    """The cluster was not balanced in time."""

    def __init__(self, timeout_s: float, state: str) -> None:
        super().__init__(f"the cluster was not balanced within {timeout_s:g} s: {state}")
