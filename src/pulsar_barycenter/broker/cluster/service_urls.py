"""The id and the URLs of a broker.

Source: Pulsar's `PulsarService.brokerUrl/webAddress/getBrokerId` and `MultipleListenerValidator`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import ListenerNotFoundError, ListenerUrls, Owner, Redirect
from pulsar_barycenter.config.addresses import listener_urls

DEFAULT_INTERNAL_LISTENER: Final = "internal"
"""The internal listener of a broker that configures none."""


@dataclass(frozen=True, slots=True)
class ServiceUrls:
    """The id and the URLs of one broker.

    The id is `<advertised address>:<web port>`, with the web port for TLS if there is no other. A *listener* is a named
    set of URLs, for one kind of clients. Every broker has an internal listener, with the URLs for clients that name no
    listener: brokers of Pulsar 5 look for it by its name, and send no client to a broker without it.
    """

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
        """Return the URLs of a broker that listens at these ports. `listeners` is the value of `advertisedListeners`,
        `internal_listener` the name of the listener for clients that name none.

        The default broker URLs, plain and TLS, are those of the listener `internal_listener`; for one that it does not
        have, the URL is made from the advertised address and the port. All web URLs are made from the address and the
        web ports. The result has an internal listener with these default URLs, even if `listeners` has none; if
        `internal_listener` is "", its name is DEFAULT_INTERNAL_LISTENER.

        Raises:
            ListenerError: a listener cannot be parsed; the message says which.
        """
        host = f"[{advertised_address}]" if ":" in advertised_address else advertised_address
        found = parse_advertised_listeners(listeners)
        name = internal_listener or DEFAULT_INTERNAL_LISTENER
        own = found.get(internal_listener, ListenerUrls())
        urls = cls(
            broker_id=f"{advertised_address}:{web_port if web_port is not None else web_port_tls or 0}",
            broker_url=own.broker_url or _url("pulsar", host, broker_port),
            broker_url_tls=own.broker_url_tls or _url("pulsar+ssl", host, broker_port_tls),
            web_url=_url("http", host, web_port),
            web_url_tls=_url("https", host, web_port_tls),
        )
        named = found.get(name, ListenerUrls())
        internal = ListenerUrls(
            named.broker_url or urls.broker_url,
            named.broker_url_tls or urls.broker_url_tls,
            urls.web_url,
            urls.web_url_tls,
        )
        return replace(urls, listeners={**found, name: internal})

    def broker_urls(self, listener: str | None) -> tuple[str | None, str | None]:
        """Return the plain and the TLS broker URL of `listener`; each is None if there is none. With None or "" return
        the default URLs.

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
    """Return the URL at which one broker connects to another. `by_tls` is `brokerClientTlsEnabled`: if it is True, this
    is `tls`, or `plain` if `tls` is None; otherwise it is `plain`, or `tls` if `plain` is None. None if both are None.
    """
    return (tls or plain) if by_tls else (plain or tls)


def _url(scheme: str, host: str, port: int | None) -> str | None:
    return None if port is None else f"{scheme}://{host}:{port}"


NextOwner: TypeAlias = ServiceUrls | Owner
"""The next owner of a bundle, to which the former owner sends its clients."""


def assigned_urls(owner: NextOwner | None, listener: str | None) -> tuple[str | None, str | None]:
    """Return the plain and the TLS broker URL of `owner` for a client; each is None if it is not known.

    `listener` is the listener by which the client connected; "" is the default one, None an unknown one. If it is
    unknown and the owner has a listener with other URLs than the default ones, both URLs are None. A client that gets
    no URL looks up the topic.
    """
    if owner is None:
        return None, None
    default = owner.broker_url, owner.broker_url_tls
    if listener is None and any((urls.broker_url, urls.broker_url_tls) != default for urls in owner.listeners.values()):
        return None, None
    if not listener:
        return default
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
    """Parse a text `name:pulsar://host:port,name:pulsar+ssl://host:port,…`. Return the URLs of each listener.

    Raises:
        ListenerError: an entry does not have this form, or repeats another; the message says which.
    """
    return {
        name: ListenerUrls(urls.get("pulsar"), urls.get("pulsar+ssl")) for name, urls in listener_urls(text).items()
    }
