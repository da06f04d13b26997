"""Why a broker did not start, in sentences for the operator.

    BrokerStartError
    ├── BrokerIdInUseError  another running process has this broker's id
    ├── MixedOwnershipError brokers run whose load manager keeps ownership in another place
    ├── MixedWritersError   brokers run that have others write the metadata than this one
    ├── RecordsElsewhereError  the ownership records are in another place than this broker's
    ├── OpenToStrangersError  it would listen beyond loopback, and let everybody do everything
    └── OwnNamespaceError   a heartbeat namespace, without which no broker may start, could not be owned

Ports in use are OSErrors: `PortInUseError` (wire/server.py) and `WebPortInUseError` (broker.py).
"""

from collections.abc import Mapping, Sequence


class BrokerStartError(Exception):
    """The broker did not start; nothing of it is left running."""


class OpenToStrangersError(BrokerStartError):
    def __init__(self, bind_address: str, opened_by: str) -> None:
        super().__init__(
            f"With bindAddress={bind_address} others than this machine would reach this broker, and with "
            f"{opened_by} it would let each of them read, write and stop everything. Set authenticationEnabled=true, "
            "and no anonymousUserRole that may do everything (docs/security.md says in which steps). Or, where only "
            "clients and brokers reach its ports, say so: barycenterUnauthenticatedNetworkAllowed=true"
        )


class BrokerIdInUseError(BrokerStartError):
    def __init__(self, broker_id: str, waited_s: float) -> None:
        super().__init__(
            f"Broker id {broker_id} is held by another running broker (it is registered at "
            f"/loadbalance/brokers/{broker_id}, and still was after {waited_s:.0f} s). Give this broker another "
            "advertisedAddress or webServicePort, or stop the other one."
        )
        self.broker_id = broker_id


class MixedOwnershipError(BrokerStartError):
    """`others` says of each broker in what it keeps ownership."""

    def __init__(self, class_name: str, others: Mapping[str, str]) -> None:
        running = "; ".join(f"{broker} ({keeping})" for broker, keeping in sorted(others.items()))
        super().__init__(
            f"This broker's load manager is {class_name}, and brokers are running that keep ownership in another "
            f"place: {running}. Two brokers would serve one topic. To change over broker by broker, set "
            "loadManagerMigrationEnabled=true first (brokers update-dynamic-config); else stop those first, or set "
            "loadManagerClassName to theirs."
        )


class MixedWritersError(BrokerStartError):
    """`mine` is this broker's `leaderOnlyMetadataWrites`, `others` what was found of those that differ."""

    def __init__(self, mine: str, others: Sequence[str]) -> None:
        mend = (
            "Stop all brokers, and start them with the same leaderOnlyMetadataWrites and loadManagerClassName"
            if mine == "true"
            else "Stop all brokers in order, which ends their sessions, and start them with the same "
            "leaderOnlyMetadataWrites. Sessions of brokers that died are ended by one that is started with true for a "
            "minute, and stopped"
        )
        super().__init__(
            "Brokers are running, or died, of which not all have the leader write the metadata "
            f"(leaderOnlyMetadataWrites is {mine} here): {', '.join(others[:5])}. {mend}."
        )


class RecordsElsewhereError(BrokerStartError):
    """`place` is where the records are, `configured` where this broker was told that they are."""

    def __init__(self, place: str, configured: str) -> None:
        super().__init__(
            f"The ownership records of this cluster are kept in the {place}, and this broker's "
            f"loadManagerServiceUnitStateTableViewClassName says the {configured}. Set it to that of the {place}; or, "
            "to move the records, set loadBalancerServiceUnitTableViewSyncer first (brokers update-dynamic-config)."
        )


class OwnNamespaceError(BrokerStartError):
    def __init__(self, namespace: object, detail: str) -> None:
        super().__init__(f"The heartbeat namespace {namespace} could not be owned: {detail}")
        self.namespace = namespace
