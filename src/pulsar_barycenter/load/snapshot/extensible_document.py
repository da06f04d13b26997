"""The reports of brokers of the extensible load manager, as a part of snapshot documents and as files of its topics.

| where Pulsar has it | content | how to get it |
|---|---|---|
| `loadbalancer-broker-load-data` | the load of each broker | `pulsar-client consume`, `broker-stats load-report` |
| `loadbalancer-top-bundles-load-data` | the heaviest bundles of each broker | `pulsar-client consume` |
| `loadbalancer-service-unit-state` | who owns each bundle | `pulsar-client consume` |
| `/loadbalance/brokers/<id>` | how to reach each registered broker | the metadata store's shell |

`pulsar-client consume` prints one message per line, `key:[…], properties:[…], content:{…}`; the last line of a key
counts. Without the third file the owner of a bundle is the broker that lists it; without the fourth all brokers that
reported count as registered.

Source: Pulsar's `ExtensibleLoadManagerImpl`, `ServiceUnitStateData`.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData

_MESSAGE: Final = re.compile(rb"key:\[([^\]]*)\], properties:\[.*?\], content:(\{.*\})\s*$")
_OWNING: Final = frozenset({"Owned", "Releasing", "Splitting"})


class Ownership(msgspec.Struct, frozen=True, rename="camel"):
    """The ownership record of a bundle, of which only the state and the brokers are read. The owner is `dst_broker`;
    while the bundle is released or split, it is `source_broker`.
    """

    state: str
    dst_broker: str | None = None
    source_broker: str | None = None

    @property
    def owner(self) -> str | None:
        if self.state not in _OWNING:
            return None
        return self.dst_broker if self.state == "Owned" else self.source_broker or self.dst_broker


class TrafficFigures(enum.StrEnum):
    """The source of the traffic by which strategies compare brokers of the extensible load manager: the newest reports,
    or the windows (averages over time) that the pipeline computed.
    """

    NEWEST = "newest"
    """The newest reports, as in Pulsar."""
    WINDOWS = "windows"
    """The pipeline's windows, as with the modular load manager."""
    LATE = "late"
    """The newest reports, because the pipeline, which was to be used, is late or published nothing."""


ExtensibleItem: TypeAlias = BrokerLoadData | TopBundlesLoadData | BrokerLookupData | Ownership


class ExtensibleDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What brokers of the extensible load manager published, by broker id. `owners` maps each bundle to the id of its
    owner. `traffic` is the source of the traffic by which strategies compare brokers.
    """

    loads: dict[str, BrokerLoadData] = {}
    top_bundles: dict[str, TopBundlesLoadData] = {}
    lookups: dict[str, BrokerLookupData] = {}
    owners: dict[str, str] = {}
    traffic: TrafficFigures = TrafficFigures.NEWEST

    @staticmethod
    def of(items: Iterable[tuple[str, ExtensibleItem]]) -> "ExtensibleDocument":
        """Return the document made of `items`: pairs of a key (broker id or bundle) and a record. If several records
        have the same kind and key, the last one counts.

        Without ownership records, the owner of a bundle is the broker that lists it as a top bundle. Without records of
        registered brokers, all brokers that published something count as registered.
        """
        loads: dict[str, BrokerLoadData] = {}
        tops: dict[str, TopBundlesLoadData] = {}
        lookups: dict[str, BrokerLookupData] = {}
        states: dict[str, Ownership] = {}
        for key, item in items:
            match item:
                case BrokerLoadData():
                    loads[key] = item
                case TopBundlesLoadData():
                    tops[key] = item
                case BrokerLookupData():
                    lookups[broker_of_lookup(item) or key] = item
                case Ownership():
                    states[key] = item
        owners = {bundle: owner for bundle, state in states.items() if (owner := state.owner) is not None}
        if not states:
            owners = {
                bundle.bundle_name: broker for broker, top in tops.items() for bundle in top.top_bundles_load_data
            }
        if not lookups:
            anybody = BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name)
            lookups = dict.fromkeys({*loads, *tops}, anybody)
        return ExtensibleDocument(loads=loads, top_bundles=tops, lookups=lookups, owners=owners)

    @property
    def newest_ms(self) -> int:
        """The time of the newest measurement or publication of a load (epoch ms); 0 if there are no loads."""
        return max((max(load.updated_at, load.reported_at) for load in self.loads.values()), default=0)


def broker_of_lookup(lookup: BrokerLookupData) -> str | None:
    """Return the broker id, which is the host and port in the web URL of a registration; None if it has no such URL."""
    return next((place for url in (lookup.web_service_url, lookup.web_service_url_tls) if (place := _place(url))), None)


def _place(url: str | None) -> str:
    return urlsplit(url or "").netloc


def kind_of(fields: Mapping[str, object]) -> type[ExtensibleItem] | None:
    """Return the kind of record that a JSON object with these fields is; None if it is no record of the extensible load
    manager.
    """
    if "topBundlesLoadData" in fields:
        return TopBundlesLoadData
    if "weightedMaxEMA" in fields or "msgThroughputEMA" in fields:
        return BrokerLoadData
    if "state" in fields and ("dstBroker" in fields or "sourceBroker" in fields):
        return Ownership
    if "loadReportType" not in fields and ("brokerVersion" in fields or "loadManagerClassName" in fields):
        return BrokerLookupData
    return None


def messages_in(content: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield key, JSON and line number (from 1) of each message that `pulsar-client consume` printed in `content`; other
    lines are skipped.
    """
    for number, line in enumerate(content.splitlines(), 1):
        found = _MESSAGE.match(line)
        if found is not None:
            yield found[1].decode(errors="replace"), found[2], number
