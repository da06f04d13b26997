"""Under which addresses a broker is reached, and how it is called.

Source: Pulsar's `PulsarService.brokerUrl/webAddress/getBrokerId` and `MultipleListenerValidator`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import ListenerNotFoundError, ListenerUrls, Owner, Redirect
from pulsar_barycenter.config.addresses import listener_urls


@dataclass(frozen=True, slots=True)
class ServiceUrls:
    """One broker's id and URLs. The id is `<advertised address>:<web port>`, never the binary port; the port is that
    of TLS only where there is no other."""

    broker_id: str
    broker_url: str | None
    broker_url_tls: str | None = None
    web_url: str | None = None
    web_url_tls: str | None = None
    listeners: Mapping[str, ListenerUrls] = field(default_factory=dict)

    @classmethod
    def of_ports(
        cls,
        advertised_address: str,
        broker_port: int | None,
        web_port: int | None,
        listeners: str = "",
        *,
        broker_port_tls: int | None = None,
        web_port_tls: int | None = None,
        internal_listener: str = "",
    ) -> "ServiceUrls":
        """Compute the URLs from the ports that were really bound; `listeners` is `advertisedListeners`.

        What the `internal_listener`, if there is one, has of broker URLs are those of whoever names no listener.

        Raises:
            ListenerError: the listeners cannot be read; the text says which.
        """
        host = f"[{advertised_address}]" if ":" in advertised_address else advertised_address
        found = parse_advertised_listeners(listeners)
        internal = found.get(internal_listener, ListenerUrls())
        return cls(
            broker_id=f"{advertised_address}:{web_port if web_port is not None else web_port_tls or 0}",
            broker_url=internal.broker_url or _url("pulsar", host, broker_port),
            broker_url_tls=internal.broker_url_tls or _url("pulsar+ssl", host, broker_port_tls),
            web_url=_url("http", host, web_port),
            web_url_tls=_url("https", host, web_port_tls),
            listeners=found,
        )

    def broker_urls(self, listener: str | None) -> tuple[str | None, str | None]:
        """Return the plain and the TLS broker URL of `listener`, or the default ones for None and "".

        Raises:
            ListenerNotFoundError: the broker has no listener of that name.
        """
        if not listener:
            return self.broker_url, self.broker_url_tls
        urls = self.listeners.get(listener)
        if urls is None:
            raise ListenerNotFoundError(self.broker_id, listener)
        return urls.broker_url, urls.broker_url_tls

    def owner(self, *, is_local: bool, epoch: int | None, listener: str | None = None) -> Owner:
        broker_url, broker_url_tls = self.broker_urls(listener)
        return Owner(
            self.broker_id, broker_url, broker_url_tls, self.web_url, self.web_url_tls, is_local, epoch, self.listeners
        )

    def redirect(self, *, authoritative: bool, listener: str | None = None) -> Redirect:
        broker_url, broker_url_tls = self.broker_urls(listener)
        return Redirect(self.broker_id, broker_url, broker_url_tls, self.web_url, self.web_url_tls, authoritative)


def between_brokers(plain: str | None, tls: str | None, *, by_tls: bool) -> str | None:
    """Return the URL by which brokers reach one another; `by_tls` is `brokerClientTlsEnabled`. None: there is none."""
    return (tls or plain) if by_tls else (plain or tls)


def _url(scheme: str, host: str, port: int | None) -> str | None:
    return None if port is None else f"{scheme}://{host}:{port}"


NextOwner: TypeAlias = ServiceUrls | Owner
"""The broker that a bundle went to, as its former owner tells clients of it."""


def assigned_urls(owner: NextOwner | None, listener: str | None) -> tuple[str | None, str | None]:
    """Return the plain and the TLS broker URL under which a client reaches `owner`, or None for what is not known.

    `listener` is the one through which the client came, "" the default one. With None, which is any of them, only an
    owner without listeners has a URL that is right for sure; a client that is told none looks the topic up.
    """
    if owner is None or (listener is None and owner.listeners):
        return None, None
    if not listener:
        return owner.broker_url, owner.broker_url_tls
    urls = owner.listeners.get(listener)
    return (None, None) if urls is None else (urls.broker_url, urls.broker_url_tls)


def at_listener(owner: Owner, listener: str | None) -> Owner:
    """Return `owner` with the broker URLs of `listener`; the web URLs stay the owner's.

    Raises:
        ListenerNotFoundError: the owner has no listener of that name.
    """
    if not listener:
        return owner
    urls = owner.listeners.get(listener)
    if urls is None:
        raise ListenerNotFoundError(owner.broker_id, listener)
    return Owner(
        owner.broker_id,
        urls.broker_url,
        urls.broker_url_tls,
        owner.web_url,
        owner.web_url_tls,
        owner.is_local,
        owner.epoch,
        owner.listeners,
    )


def parse_advertised_listeners(text: str) -> dict[str, ListenerUrls]:
    """Read `name:pulsar://host:port,name:pulsar+ssl://host:port,…`.

    Raises:
        ListenerError: an entry is not of that form, or repeats one; the text says which.
    """
    return {
        name: ListenerUrls(urls.get("pulsar"), urls.get("pulsar+ssl")) for name, urls in listener_urls(text).items()
    }
