"""Validates those values of broker.conf that have an inner structure: the cluster's name, hosts, listeners.

A value is valid only if all code that uses it later accepts it. For example, a broker's id is part of the name of its
heartbeat namespace, in which `:` may occur only before the port.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

LISTENERS_ALLOWED: Final = "a list of name:pulsar://host:port or name:pulsar+ssl://host:port"
ADVERTISED_ALLOWED: Final = (
    "a host name or an IPv4 address without a port, for example broker-1.example.org. A broker's id cannot contain an "
    "IPv6 address: if bindAddress is one, set a host name"
)
CLUSTER_ALLOWED: Final = "a name of 1 to 255 ASCII letters, digits and _ - = : ."
BIND_ALLOWED: Final = "a host name or an address of this machine, without a port"

_SCHEMES: Final = ("pulsar", "pulsar+ssl")
_LONGEST_HOST: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?", re.ASCII)
_CLUSTER: Final = re.compile(r"[-=:.\w]{1,255}", re.ASCII)


class ListenerError(ValueError):
    """An invalid entry of `advertisedListeners`. The message contains the entry and says what is wrong with it."""


def is_cluster_name(text: str) -> bool:
    return _CLUSTER.fullmatch(text) is not None


def is_host_name(text: str) -> bool:
    """Return whether `text` is a host name or an IPv4 address. An IPv6 address is not."""
    labels = text.removesuffix(".").split(".")
    return len(text) <= _LONGEST_HOST and all(map(_LABEL.fullmatch, labels))


def is_address(text: str) -> bool:
    """Return whether a socket can listen at `text`: it is a host name, an IPv4 or an IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return is_host_name(text)
    return True


def listener_urls(text: str) -> dict[str, dict[str, str]]:
    """Parse `name:pulsar://host:port,name:pulsar+ssl://host:port,…`. Return, for each listener name, its URLs by
    scheme.

    Raises:
        ListenerError: an entry has no name, host or port, has another scheme, or repeats a scheme.
    """
    found: dict[str, dict[str, str]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, url = entry.partition(":")
        scheme, separator, _ = url.partition("://")
        if not name or not separator:
            raise ListenerError(f"{entry!r} is not of the form name:pulsar://host:port")
        if scheme not in _SCHEMES:
            raise ListenerError(f"{entry!r} must have the scheme pulsar or pulsar+ssl")
        if not _has_host_and_port(url):
            raise ListenerError(f"{entry!r} lacks a valid host and port")
        if scheme in found.setdefault(name, {}):
            raise ListenerError(f"{entry!r} is a second URL of the same listener and scheme: remove one of the two")
        found[name][scheme] = url
    return found


def _has_host_and_port(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return bool(port) and is_address(parts.hostname or "") and not parts.path.strip("/")
