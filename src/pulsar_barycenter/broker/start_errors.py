"""Errors that say why a broker did not start, as text for the operator.

    BrokerStartError
    ├── BrokerIdInUseError  another running process has this broker's id
    ├── MixedOwnershipError running brokers own bundles in another way
    ├── MixedWritersError   running brokers have another leaderOnlyMetadataWrites
    ├── RecordsElsewhereError  the ownership records are in another place than the one in this broker's configuration
    ├── OpenToStrangersError  other machines could reach it, and every client could do everything
    └── OwnNamespaceError   a heartbeat namespace, which every broker needs, could not be owned

A port in use is an OSError: `PortInUseError` (wire/server.py) and `WebPortInUseError` (broker.py).
"""

from collections.abc import Mapping, Sequence


class BrokerStartError(Exception):
    """The broker did not start. All parts that were opened are closed again."""


class OpenToStrangersError(BrokerStartError):
    def __init__(self, bind_address: str, opened_by: str) -> None:
        super().__init__(
            f"With bindAddress={bind_address} other machines can reach this broker, and with {opened_by} every client "
            "could read, write and stop everything. Set authenticationEnabled=true, and no anonymousUserRole that may "
            "do everything (docs/security.md lists the steps). Or, if only your clients and brokers can reach its "
            "ports, set barycenterUnauthenticatedNetworkAllowed=true"
        )


class BrokerIdInUseError(BrokerStartError):
    def __init__(self, broker_id: str, waited_s: float) -> None:
        super().__init__(
            f"Broker id {broker_id} is in use by another running broker (it is registered at "
            f"/loadbalance/brokers/{broker_id}, and still was after {waited_s:.0f} s). Give this broker another "
            "advertisedAddress or webServicePort, or stop the other one."
        )
        self.broker_id = broker_id


class MixedOwnershipError(BrokerStartError):
    """The broker did not start, because running brokers own bundles in another way. `others` maps the id of each of
    these brokers to a text with its load manager and its way of owning bundles.
    """

    def __init__(self, class_name: str, others: Mapping[str, str]) -> None:
        running = "; ".join(f"{broker} ({keeping})" for broker, keeping in sorted(others.items()))
        super().__init__(
            f"This broker's load manager is {class_name}, and running brokers keep ownership in another place: "
            f"{running}. Two brokers would serve one topic. To change over broker by broker, set "
            "loadManagerMigrationEnabled=true first (brokers update-dynamic-config); otherwise stop those brokers "
            "first, or set loadManagerClassName to theirs."
        )


class MixedWritersError(BrokerStartError):
    """The broker did not start, because running brokers have another mode of writing metadata. `mine` is this broker's
    `leaderOnlyMetadataWrites`, `others` are texts about the other brokers.
    """

    def __init__(self, mine: str, others: Sequence[str]) -> None:
        mend = (
            "Stop all brokers, and start them with the same leaderOnlyMetadataWrites and loadManagerClassName"
            if mine == "true"
            else "Stop all brokers in order, which ends their sessions, and start them with the same "
            "leaderOnlyMetadataWrites. To end sessions of brokers that died, start one broker with true for a minute, "
            "and stop it"
        )
        super().__init__(
            f"leaderOnlyMetadataWrites is {mine} here, and has another value on brokers that are running or died: "
            f"{', '.join(others[:5])}. {mend}."
        )


class RecordsElsewhereError(BrokerStartError):
    """The broker did not start, because its configuration names `configured` as the place of the ownership records, but
    the records are in `place`.
    """

    def __init__(self, place: str, configured: str) -> None:
        super().__init__(
            f"The ownership records of this cluster are in the {place}, but this broker's "
            f"loadManagerServiceUnitStateTableViewClassName names the {configured}. Set it to that of the {place}; or, "
            "to move the records, set loadBalancerServiceUnitTableViewSyncer first (brokers update-dynamic-config)."
        )


class OwnNamespaceError(BrokerStartError):
    def __init__(self, namespace: object, detail: str) -> None:
        super().__init__(f"The heartbeat namespace {namespace} could not be owned: {detail}")
        self.namespace = namespace
