"""Real clusters for tests: started in a second, on free ports, and ended with nothing left behind.

A test of a program that uses Pulsar needs brokers that behave like those in production. `Cluster` starts them on
loopback, as processes or, for the quickest tests, one broker inside the test process:

    from pulsar_barycenter.testing import Cluster

    with Cluster(brokers=3) as cluster:
        client = pulsar.Client(cluster.service_url)
        ...
        cluster.kill(0)  # the other brokers take its bundles over

`async with Cluster() as cluster` gives the same methods as coroutines. For pytest the package brings the fixtures
`barycenter` and `barycenter_cluster` (`pytest_plugin`), without any import.

`cluster` has the synchronous and the asynchronous interface of a cluster, `brokers` the contract of one broker in it,
`processes` and `in_process` the two ways to run brokers, `loop_thread` the event loop of the synchronous interface,
`errors` the errors.

The system chooses the ports, on loopback. The data is in a temporary folder, unless the test names a folder. Brokers
end, and the folder is removed, also when the test process is killed. What this module exports is public: it changes
only with the major version.
"""

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.standalone.errors import StandaloneError
from pulsar_barycenter.testing.brokers import ClusterBroker
from pulsar_barycenter.testing.cluster import AsyncCluster, Cluster
from pulsar_barycenter.testing.errors import NotBalancedError, NotInProcessError, TestClusterError, UnknownBrokerError

__all__ = [
    "AdminRequestError",
    "AsyncCluster",
    "Cluster",
    "ClusterBroker",
    "NotBalancedError",
    "NotInProcessError",
    "StandaloneError",
    "TestClusterError",
    "UnknownBrokerError",
]
