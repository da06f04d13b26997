"""How many connections there may be, in all and from one address.

Source: Pulsar's `ConnectionController`; as there, a connection too many is told so and closed, before it says anything.
"""

from collections import Counter

from pulsar_barycenter.config.broker_config import BrokerConfig


class ConnectionLimits:
    """Counts those that were admitted until they have `left`."""

    __slots__ = ("_by_host", "_count")

    def __init__(self) -> None:
        self._by_host: Counter[str] = Counter()
        self._count = 0

    def admit(self, host: str, config: BrokerConfig) -> str | None:
        """Count a connection from an address, or return why there may not be another one."""
        if config.broker_max_connections and self._count >= config.broker_max_connections:
            return f"Reached the maximum number of connections (brokerMaxConnections={config.broker_max_connections})"
        most = config.broker_max_connections_per_ip
        if most and self._by_host[host] >= most:
            return f"Reached the maximum number of connections on address {host} (brokerMaxConnectionsPerIp={most})"
        self._count += 1
        self._by_host[host] += 1
        return None

    def left(self, host: str) -> None:
        """A connection that was admitted from this address is gone."""
        self._count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
