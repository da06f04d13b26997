"""Texts in broker.conf that are read again after the file: the cluster's name, hosts, listeners.

What they may be is what all that reads them later can: a broker's id is part of the name of its heartbeat namespace,
in which `:` stands before the port alone.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

LISTENERS_ALLOWED: Final = "a list of name:pulsar://host:port or name:pulsar+ssl://host:port"
ADVERTISED_ALLOWED: Final = (
    "a host name or an IPv4 address without a port, as broker-1.example.org: an IPv6 address is no part of a broker's "
    "id, and where bindAddress is one, a host name has to be given"
)
CLUSTER_ALLOWED: Final = "1 to 255 letters, digits and _ - = : . of ASCII"
BIND_ALLOWED: Final = "a host name or an address of this machine, without a port"

_SCHEMES: Final = ("pulsar", "pulsar+ssl")
_LONGEST_HOST: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?", re.ASCII)
_CLUSTER: Final = re.compile(r"[-=:.\w]{1,255}", re.ASCII)


class ListenerError(ValueError):
    """An entry of `advertisedListeners` that is not one; the text names it, and what is wrong."""


def is_cluster_name(text: str) -> bool:
    return _CLUSTER.fullmatch(text) is not None


def is_host_name(text: str) -> bool:
    """Return whether `text` is a host name or an IPv4 address; an IPv6 address is none."""
    labels = text.removesuffix(".").split(".")
    return len(text) <= _LONGEST_HOST and all(map(_LABEL.fullmatch, labels))


def is_address(text: str) -> bool:
    """Return whether one may listen at `text`: a host name or an IP address of either kind."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return is_host_name(text)
    return True


def listener_urls(text: str) -> dict[str, dict[str, str]]:
    """Read `name:pulsar://host:port,name:pulsar+ssl://host:port,…` into URLs by name and scheme.

    Raises:
        ListenerError: an entry has no name, no host or port, or another scheme, or repeats one.
    """
    found: dict[str, dict[str, str]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, url = entry.partition(":")
        scheme, separator, _ = url.partition("://")
        if not name or not separator:
            raise ListenerError(f"{entry!r} is not of the form name:pulsar://host:port")
        if scheme not in _SCHEMES:
            raise ListenerError(f"{entry!r} has another scheme")
        if not _has_host_and_port(url):
            raise ListenerError(f"{entry!r} has no host and port")
        if scheme in found.setdefault(name, {}):
            raise ListenerError(f"{entry!r} repeats the listener's URL")
        found[name][scheme] = url
    return found


def _has_host_and_port(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return bool(port) and is_address(parts.hostname or "") and not parts.path.strip("/")
