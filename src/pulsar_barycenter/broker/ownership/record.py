"""The value of a bundle's lock: the owner, the epoch of its term, and whether it serves already.

Source: Pulsar's `NamespaceEphemeralData`. `epoch` and `incarnation` are additions, which Pulsar ignores.
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
    """The value of the key of a bundle's lock. `disabled` is True while the owner does not serve the bundle: before its
    term has an epoch, and while it unloads the bundle.

    A broker that reads a disabled record lets its look-ups of the bundle wait until the record changes. `incarnation`
    distinguishes runs of a process with the same broker id, so that a process recognises records of its former runs.
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
                name: AdvertisedListener(
                    listener.broker_url, listener.broker_url_tls, listener.web_url, listener.web_url_tls
                )
                for name, listener in urls.listeners.items()
            },
            epoch=epoch,
            incarnation=incarnation,
        )

    def owner(self) -> Owner:
        """Return the broker in this record as the answer to look-ups at other brokers."""
        return Owner(
            broker_id=self.broker_id or (self.http_url or "").partition("://")[2],
            broker_url=self.native_url,
            broker_url_tls=self.native_url_tls,
            web_url=self.http_url,
            web_url_tls=self.http_url_tls,
            epoch=self.epoch,
            listeners={
                name: ListenerUrls(
                    listener.broker_service_url,
                    listener.broker_service_url_tls,
                    listener.broker_http_url,
                    listener.broker_https_url,
                )
                for name, listener in self.advertised_listeners.items()
            },
        )


def never_inherited(stored: OwnershipRecord, mine: OwnershipRecord) -> bool:
    """Return False: a session never takes over a lock of another session, not even a lock of an earlier session of the
    same process. The ownership ended with the session in which the lock was created.
    """
    return False


def lock_path(bundle: Bundle) -> str:
    return f"{OWNERSHIP_ROOT}/{bundle}"
