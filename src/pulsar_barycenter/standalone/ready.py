"""The message of a broker or a cluster that serves clients: a line of text, or one JSON object.

For ports that were given as 0, it has the ports that the system chose.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

READY: Final = "ready"
READY_JSON: Final = '{"event":"ready"'
"""The beginnings of the line with which a child process reports on standard output that it is ready."""


class BrokerReady(msgspec.Struct, frozen=True, rename="camel", kw_only=True, tag_field="event", tag="ready"):
    """A broker that serves clients. A URL is None if the broker has no port of that kind. `data` is the absolute path
    of the data directory.
    """

    broker: str
    pid: int
    data: str
    broker_url: str | None
    broker_url_tls: str | None
    web_url: str | None
    web_url_tls: str | None


class ClusterReady(msgspec.Struct, frozen=True, rename="camel", kw_only=True, tag_field="event", tag="ready"):
    """A cluster on one machine whose brokers all serve clients.

    `service_url` has all brokers, so that a client can reconnect if one fails; it is "" if they only have ports with
    TLS. The URLs with TLS are None or empty if there are no such ports. `pid` is the process that ends the cluster
    after SIGTERM. `pipeline` is "starting", or "none" if the cluster has no pipeline. `ephemeral` says that `data` is
    deleted when the cluster has stopped.
    """

    service_url: str
    service_url_tls: str | None
    web_urls: tuple[str, ...]
    web_urls_tls: tuple[str, ...]
    data: str
    ephemeral: bool
    pid: int
    pipeline: str
    brokers: tuple[BrokerReady, ...]

    @classmethod
    def of(
        cls, brokers: Sequence[BrokerReady], *, data: str, pid: int, has_pipeline: bool, ephemeral: bool = False
    ) -> "ClusterReady":
        return cls(
            service_url=_joined([one.broker_url for one in brokers]) or "",
            service_url_tls=_joined([one.broker_url_tls for one in brokers]),
            web_urls=tuple(one.web_url for one in brokers if one.web_url),
            web_urls_tls=tuple(one.web_url_tls for one in brokers if one.web_url_tls),
            data=data,
            ephemeral=ephemeral,
            pid=pid,
            pipeline="starting" if has_pipeline else "none",
            brokers=tuple(brokers),
        )

    def line(self) -> str:
        """Return the line of text that reports the cluster as ready."""
        web = _also(", ".join(self.web_urls), self.service_url_tls, self.web_urls_tls)
        kept = ", deleted at the end" if self.ephemeral else ""
        return f"{READY}: {self.service_url} ({web}); data in {self.data}{kept}"


def broker_line(ready: BrokerReady) -> str:
    """Return the line of text that reports one broker as ready."""
    if ready.broker_url is None:
        return f"{READY}: {ready.broker_url_tls} (web {ready.web_url or ready.web_url_tls})"
    web_tls = () if ready.web_url_tls is None else (ready.web_url_tls,)
    return f"{READY}: {ready.broker_url} ({_also(ready.web_url or '', ready.broker_url_tls, web_tls)})"


def parse_broker_ready(line: str) -> BrokerReady:
    """Parse the ready line that a broker prints with `--json`.

    Raises:
        msgspec.DecodeError: the line is something else.
    """
    return msgspec.json.decode(line, type=BrokerReady)


def _also(web: str, service_url_tls: str | None, web_urls_tls: Sequence[str]) -> str:
    parts = [f"web {web}"] if web else []
    if service_url_tls or web_urls_tls:
        parts.append(f"TLS {', '.join([*([service_url_tls] if service_url_tls else []), *web_urls_tls])}")
    return "; ".join(parts)


def _joined(urls: Sequence[str | None]) -> str | None:
    """Return one URL that has the addresses of all `urls`; None if there are none."""
    found = [url for url in urls if url]
    if not found:
        return None
    scheme = found[0].partition("://")[0]
    return f"{scheme}://" + ",".join(url.partition("://")[2] for url in found)
