"""The Python client of Apache Pulsar, which reports errors only."""

from contextlib import suppress
from typing import Any

import pulsar


class StockClient(pulsar.Client):  # type: ignore[misc]
    """The client, closed without an error while one of its producers or consumers reconnects.

    It closes its producers and consumers one by one, and one that has no connection at that moment makes `close` raise
    `NotConnected`. A broker that refuses a message ends the connection, so this can happen in any test.
    """

    def close(self) -> None:
        with suppress(pulsar.NotConnected):
            super().close()


def connect(url: str, **options: Any) -> pulsar.Client:
    """Return a client with these options of `pulsar.Client`."""
    return StockClient(url, **{"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **options})
