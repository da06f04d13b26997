"""Limits the number of connections, in total and from one address.

Source: Pulsar's `ConnectionController`. As in Pulsar, a connection above a limit gets an error at once and is closed.
"""

from collections import Counter

from pulsar_barycenter.config.broker_config import BrokerConfig


class ConnectionLimits:
    """Counts the open connections, in total and by address. A connection counts from the call of `admit` to the call of
    `left`.
    """

    __slots__ = ("_by_host", "_count")

    def __init__(self) -> None:
        self._by_host: Counter[str] = Counter()
        self._count = 0

    def admit(self, host: str, config: BrokerConfig) -> str | None:
        """Count a new connection from the address `host`, and return None. If a limit is reached, do not count it, and
        return the reason why it is refused.
        """
        if config.broker_max_connections and self._count >= config.broker_max_connections:
            return f"Reached the maximum number of connections (brokerMaxConnections={config.broker_max_connections})"
        limit = config.broker_max_connections_per_ip
        if limit and self._by_host[host] >= limit:
            return f"Reached the maximum number of connections on address {host} (brokerMaxConnectionsPerIp={limit})"
        self._count += 1
        self._by_host[host] += 1
        return None

    def left(self, host: str) -> None:
        """Record that an admitted connection from this address was closed."""
        self._count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
