"""The value of a bundle's lock: who owns it, since which term, and whether he serves it already.

Source: Pulsar's `NamespaceEphemeralData`. `epoch` and `incarnation` are ours and unknown to Pulsar, which
ignores them.
"""

import msgspec

from pulsar_barycenter.broker.cluster.lookup_answers import ListenerUrls, Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.naming.bundle import Bundle

OWNERSHIP_ROOT = "/namespace"


class AdvertisedListener(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    broker_service_url: str | None = None
    broker_service_url_tls: str | None = None
    broker_http_url: str | None = None
    broker_https_url: str | None = None


class OwnershipRecord(msgspec.Struct, frozen=True, rename="camel"):
    """`disabled` is true while the owner does not serve: before its term has its epoch, and while it unloads.

    Whoever reads a disabled record waits for it to change. `incarnation` tells the processes apart that bear
    one broker id, so that a process recognises what it left behind itself.
    """

    broker_id: str = ""
    native_url: str | None = None
    native_url_tls: str | None = None
    http_url: str | None = None
    http_url_tls: str | None = None
    disabled: bool = False
    advertised_listeners: dict[str, AdvertisedListener] = {}
    epoch: int | None = None
    incarnation: str | None = None

    @classmethod
    def of(cls, urls: ServiceUrls, incarnation: str, *, epoch: int | None, disabled: bool) -> "OwnershipRecord":
        return cls(
            broker_id=urls.broker_id,
            native_url=urls.broker_url,
            native_url_tls=urls.broker_url_tls,
            http_url=urls.web_url,
            http_url_tls=urls.web_url_tls,
            disabled=disabled,
            advertised_listeners={
                name: AdvertisedListener(each.broker_url, each.broker_url_tls, each.web_url, each.web_url_tls)
                for name, each in urls.listeners.items()
            },
            epoch=epoch,
            incarnation=incarnation,
        )

    def owner(self) -> Owner:
        """Return the answer that sends a client to this owner, another broker than the one asked."""
        return Owner(
            broker_id=self.broker_id or (self.http_url or "").partition("://")[2],
            broker_url=self.native_url,
            broker_url_tls=self.native_url_tls,
            web_url=self.http_url,
            web_url_tls=self.http_url_tls,
            epoch=self.epoch,
            listeners={
                name: ListenerUrls(
                    each.broker_service_url, each.broker_service_url_tls, each.broker_http_url, each.broker_https_url
                )
                for name, each in self.advertised_listeners.items()
            },
        )


def never_inherited(stored: OwnershipRecord, mine: OwnershipRecord) -> bool:
    """No session takes the lock of another over, not even of this process: what it served under is over."""
    return False


def lock_path(bundle: Bundle) -> str:
    return f"{OWNERSHIP_ROOT}/{bundle}"
