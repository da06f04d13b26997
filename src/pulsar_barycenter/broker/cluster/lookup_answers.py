"""The answers of a look-up: an owner to connect to, another broker to ask, or an error.

    LookupFailedError
    ├── LookupNotReadyError     this broker is starting or stopping
    ├── TooManyLookupsError     the limit of concurrent look-ups is reached
    ├── BundleUnloadingError    the bundle is in transit, and no broker opened it in time
    ├── BundleNotAcquiredError  the bundle could not be acquired here; another broker may have acquired it first
    ├── ListenerNotFoundError   the owner has no listener with the requested name
    ├── BundleNotFoundError     the range is not a bundle of the namespace
    └── NamespaceNotFoundError  the namespace does not exist

A look-up also fails with MetadataError (the store could not be read) and InvalidNameError. The binary protocol and HTTP
encode the answers as follows:

| answer                       | binary lookup                | HTTP lookup                              |
|------------------------------|------------------------------|------------------------------------------|
| Owner                        | Connect, authoritative=true  | 200 LookupData                           |
| Redirect                     | Redirect, its flag           | 307 to `web_url`, its flag               |
| LookupNotReadyError          | Failed / ServiceNotReady     | 503                                      |
| TooManyLookupsError          | Failed / TooManyRequests     | 503                                      |
| NamespaceNotFoundError       | Failed / TopicNotFound       | 404                                      |
| ListenerNotFoundError        | Failed / NotAllowedError     | 404                                      |
| any other LookupFailedError, MetadataError | Failed / MetadataError | 503                     |
| InvalidNameError             | Failed / InvalidTopicName    | 412                                      |

A client waits and tries again after MetadataError. After ServiceNotReady in a look-up it may close the connection, so
this code is used only if the broker is starting or stopping. NotAllowedError and 404 are final. Pulsar answers an
unknown listener with ServiceNotReady; clients treat that as final only if the text is that of Pulsar's own tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_MAX_SHOWN: Final = 100


class LookupFailedError(Exception):
    """A look-up failed. The client may try again, except after NamespaceNotFoundError and ListenerNotFoundError."""


class LookupNotReadyError(LookupFailedError):
    pass


class TooManyLookupsError(LookupFailedError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"Too many concurrent lookups: the limit is {limit} (maxConcurrentLookupRequest). Try later.")
        self.limit = limit


class BundleUnloadingError(LookupFailedError):
    def __init__(self, bundle: object, detail: str = "is being unloaded") -> None:
        super().__init__(f"Namespace bundle {bundle} {detail}")
        self.bundle = bundle


class BundleNotAcquiredError(LookupFailedError):
    def __init__(self, bundle: object, detail: str) -> None:
        super().__init__(f"Failed to acquire ownership for namespace bundle {bundle}: {detail}")
        self.bundle = bundle


class ListenerNotFoundError(LookupFailedError):
    def __init__(self, broker_id: str, listener: str) -> None:
        # Pulsar's text, which clients search for
        super().__init__(f"the broker do not have {listener[:_MAX_SHOWN]} listener (broker {broker_id})")
        self.listener = listener


class BundleNotFoundError(LookupFailedError):
    def __init__(self, bundle: object) -> None:
        super().__init__(f"Bundle {bundle} not found: the range is not a bundle of the namespace")
        self.bundle = bundle


class NamespaceNotFoundError(LookupFailedError):
    def __init__(self, namespace: object) -> None:
        super().__init__(f"Namespace {namespace} does not exist. Create it first.")
        self.namespace = namespace


@dataclass(frozen=True, slots=True)
class ListenerUrls:
    """The URLs of one advertised listener."""

    broker_url: str | None = None
    broker_url_tls: str | None = None
    web_url: str | None = None
    web_url_tls: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The answer of a look-up that names the broker which serves the topic's bundle; the client connects to that
    broker.

    `is_local`: this broker is the owner. `epoch` is the epoch in the ownership record, None if the record has no epoch
    (a broker of Apache Pulsar wrote it).
    """

    broker_id: str
    broker_url: str | None
    broker_url_tls: str | None
    web_url: str | None
    web_url_tls: str | None
    is_local: bool = False
    epoch: int | None = None
    listeners: Mapping[str, ListenerUrls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redirect:
    """The answer of a look-up that names another broker, which has to answer instead: the client sends the look-up
    there, with this value of `authoritative`.
    """

    broker_id: str
    broker_url: str | None
    broker_url_tls: str | None
    web_url: str | None
    web_url_tls: str | None
    authoritative: bool


LookupAnswer: TypeAlias = Owner | Redirect
