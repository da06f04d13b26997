"""Reads what a decision needs beside the load: settings, identity and clock of a cluster. Changes nothing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

import msgspec
from msgspec import structs

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.config.broker_conf import ConfigError, parse_value
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.load_balancing_config import LoadBalancingConfig
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.doctor.reading.clock_offset import clock_offset
from pulsar_barycenter.load.managers import MANAGER_KEY
from pulsar_barycenter.load.policies import (
    DRAINED_KEY,
)
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError

MAX_CLOCK_DIFFERENCE_MS: Final = 60_000
"""The difference of clocks up to which the ages of reports can be compared."""
_ALIVE: Final = "/admin/v2/brokers/version"
_ANSWERS_S: Final = 5.0
_OWN_CHOICE: Final = frozenset({MANAGER_KEY, SHEDDING_KEY, PLACEMENT_KEY})
"""Keys that say what the cluster's own balancer runs."""


class FactsError(Exception):
    """The cluster cannot be read, or is another cluster than the one that the balancer is for; the text says what to
    do.
    """


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a cluster: its name, and the address of its metadata store, since two clusters may have the same
    name.
    """

    cluster: str
    store: str

    def __str__(self) -> str:
        return f"{self.cluster} (metadata in {self.store})" if self.store else self.cluster


async def identity_of(cluster: AdminCluster) -> Identity:
    """Return the identity of `cluster`, read from one of its brokers.

    Raises:
        NotNowError, RefusedError: the broker does not return it.
    """
    settings, stores = await cluster.settings(), await cluster.stores()
    store = next((stores[key] for key in ("metadataStoreUrl", "zookeeperServers") if stores.get(key)), "")
    return Identity(cluster=settings.get("clusterName", ""), store=str(store))


async def one_cluster(clusters: Mapping[str, AdminCluster]) -> Identity:
    """Return the identity of the cluster that the brokers at these addresses belong to; addresses at which no broker
    answers do not count.

    Raises:
        FactsError: no broker answers, or two belong to different clusters.
    """
    known: dict[str, Identity] = {}
    failures = []
    for url, cluster in clusters.items():
        try:
            known[url] = await identity_of(cluster)
        except (NotNowError, RefusedError) as error:
            failures.append(str(error))
        except msgspec.ValidationError:
            failures.append(f"{url} answers, but is not the web service of a broker")
    if not known:
        raise FactsError(f"cannot read the cluster: {failures[0]}")
    (first, identity), *others = known.items()
    for url, other in others:
        if other != identity:
            raise FactsError(
                f"{first} belongs to the cluster {identity}, and {url} to {other}; name brokers of one cluster"
            )
    return identity


@cache
def _balancing_keys() -> frozenset[str]:
    own = LoadBalancingConfig.__annotations__
    names = frozenset(field.encode_name for field in structs.fields(BrokerConfig) if field.name in own)
    return names - _OWN_CHOICE | {DRAINED_KEY, COMPATIBILITY_KEY}


def balancing_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those settings of a broker that decisions use. Values that this program does not allow are left out, so
    that their defaults apply.
    """
    return {key: text for key, text in settings.items() if key in _balancing_keys() and _is_allowed(key, text)}


def _is_allowed(key: str, text: str) -> bool:
    try:
        parse_value(key, text)
    except ConfigError:
        return False
    return True


async def answering(
    client: AdminClient, urls: Iterable[str], now_ms: Callable[[], int], *, within_s: float = _ANSWERS_S
) -> tuple[str, str]:
    """Return the first of the addresses at which a broker answers within `within_s` seconds, and a text that says how
    far its clock differs from this machine's. The text is blank if the difference is at most MAX_CLOCK_DIFFERENCE_MS,
    or the answer has no time.

    Raises:
        FactsError: no broker answers.
    """
    failure = ""
    for url in dict.fromkeys(urls):
        sent_ms = now_ms()
        try:
            async with asyncio.timeout(within_s):
                answer = await client.ask(url, _ALIVE)
        except AdminRequestError as error:
            failure = failure or str(error)
            continue
        except TimeoutError:
            failure = failure or f"GET {url}{_ALIVE}: no answer within {within_s:g} s"
            continue
        return url, clock_difference(url, clock_offset(answer.headers.get("date", ""), sent_ms, now_ms()))
    raise FactsError(f"no broker answers: {failure}")


def clock_difference(url: str, offset: tuple[int, int] | None) -> str:
    """Return a text that says how far the clock of the broker at `url` differs from this machine's; "" if the
    difference is at most MAX_CLOCK_DIFFERENCE_MS, or `offset` is None.

    `offset` is by how many ms the broker's clock is ahead of this machine's; negative: it is behind. It is known only
    as a range: the least and the greatest possible value, both inclusive.
    """
    if offset is None or (offset[0] <= MAX_CLOCK_DIFFERENCE_MS and offset[1] >= -MAX_CLOCK_DIFFERENCE_MS):
        return ""
    ahead = offset[0] > 0
    by_s = (offset[0] if ahead else -offset[1]) / 1000
    return (
        f"the clock of {url} is {by_s:,.0f} s {'ahead of' if ahead else 'behind'} that of this machine, so the age of "
        "load is not known; set both by NTP: timedatectl set-ntp true, or chronyc makestep"
    )
