"""Finds the bundle of a series: by the hash of the topic's name, or by its label `bundle`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError, UnservedDomainError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.prometheus.series import (
    BUNDLE_SERIES,
    TOPIC_SERIES,
    ImportRefusedError,
)

_NOT_PARTITIONED: Final = ("", "-1")
_BROKER_BOUND: Final = "belong to one broker"
_NO_TOPIC: Final = "have no label topic: exposeTopicLevelMetricsInPrometheus is false"
_NO_NAME: Final = "have no valid name"


class Placing(Protocol):
    """Finds the bundle to which a series of metrics belongs."""

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metrics that are read for each bundle: a mapping from the key of a value, such as "producers", to the
        name of its metric in Prometheus.
        """
        ...

    @property
    def left_out(self) -> Counter[str]:
        """The number of names of topics or bundles whose series are left out because their bundle is not known, by the
        reason.
        """
        ...

    def name_of(self, metric: Mapping[str, str]) -> str:
        """Return the name of the topic or bundle that the series is about; "" if its labels have none."""
        ...

    def bundle_of(self, name: str) -> str:
        """Return the bundle that belongs to `name`, a result of `name_of`; "" if this bundle is not known. The series
        with this name are then left out.
        """
        ...


class TopicPlacing:
    """Finds the bundle of a topic's series by the hash of the topic's name and the boundaries of its namespace."""

    metrics: Mapping[str, str] = TOPIC_SERIES

    def __init__(self, bundles: Mapping[str, NamespaceBundles]) -> None:
        """Find bundles with `bundles`, which maps the names of namespaces to their bundles. The caller may add
        namespaces to it later.
        """
        self._bundles = bundles
        self._known: dict[str, str] = {}
        self.left_out: Counter[str] = Counter()

    def name_of(self, metric: Mapping[str, str]) -> str:
        topic = metric.get("topic", "")
        partition = metric.get("partition", "")
        if topic and partition not in _NOT_PARTITIONED:
            return f"{topic}-partition-{partition}"
        return topic

    def bundle_of(self, name: str) -> str:
        found = self._known.get(name)
        if found is None or (not found and self._waits(name)):
            is_new = found is None
            found, why = self._found(name)
            self._known[name] = found
            if why and is_new:
                self.left_out[why] += 1
        return found

    def _waits(self, name: str) -> bool:
        """Return whether a topic was left out because the boundaries of its namespace were not known, and these have
        become known since.
        """
        return str(namespace_of(name)) in self._bundles

    def _found(self, name: str) -> tuple[str, str]:
        """Return the bundle of the topic `name` and ""; or "" and the reason why its bundle is not known."""
        namespace = namespace_of(name)
        if namespace is None:
            return "", _NO_NAME if name else _NO_TOPIC
        if is_broker_bound(namespace):
            return "", _BROKER_BOUND
        bundles = self._bundles.get(str(namespace))
        if bundles is None:
            return "", f"are in {namespace}, whose boundaries are not known"
        return str(bundles.find(TopicName.parse(name))), ""


class BundlePlacing:
    """Finds the bundle of a series by the series' label `bundle`."""

    metrics: Mapping[str, str] = BUNDLE_SERIES

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self.left_out: Counter[str] = Counter()

    def name_of(self, metric: Mapping[str, str]) -> str:
        return metric.get("bundle", "")

    def bundle_of(self, name: str) -> str:
        if name not in self._known:
            self._known[name], why = _by_label(name)
            if why:
                self.left_out[why] += 1
        return self._known[name]


def _by_label(name: str) -> tuple[str, str]:
    """Return the bundle that the label's value `name` names and ""; or "" and the reason why its series are left
    out.
    """
    try:
        bundle = Bundle.parse(name)
    except InvalidNameError:
        return "", _NO_NAME
    return ("", _BROKER_BOUND) if is_broker_bound(bundle.namespace) else (str(bundle), "")


def namespace_of(topic: str) -> NamespaceName | None:
    """Return the namespace of a topic's full name; None if the name is not valid."""
    try:
        return TopicName.parse(topic).namespace if "://" in topic else None
    except (InvalidNameError, UnservedDomainError):
        return None


def boundaries_of(document: bytes, where: str) -> dict[str, NamespaceBundles]:
    """Return the bundles of each namespace in a JSON document. The document maps each namespace to its boundaries, or
    to the output of `pulsar-admin namespaces bundles`, which has the boundaries in the field `boundaries`.

    Raises:
        ImportRefusedError: the document has another form; the text names it as `where`.
    """
    try:
        found = decode_json(document, dict[str, Any])
        return {name: _bundles(name, value) for name, value in found.items()}
    except (msgspec.DecodeError, msgspec.ValidationError, InvalidBundlesError, InvalidNameError, KeyError) as error:
        raise ImportRefusedError(
            f'{where} does not have the boundaries of namespaces: {error}; give JSON like {{"public/default":'
            ' ["0x00000000", "0x80000000", "0xffffffff"]}'
        ) from error


def _bundles(namespace: str, value: Any) -> NamespaceBundles:
    edges = value["boundaries"] if isinstance(value, dict) else value
    return NamespaceBundles.from_boundaries(NamespaceName.parse(namespace), msgspec.convert(edges, list[str]))


def namespaces_of(names: Iterable[str]) -> set[str]:
    """Return the namespaces of the topics `names`, without heartbeat and SLA-monitor namespaces, whose bundles cannot
    move. Names that are not valid are left out.
    """
    found = {namespace for name in names if (namespace := namespace_of(name)) is not None}
    return {str(namespace) for namespace in found if not is_broker_bound(namespace)}
