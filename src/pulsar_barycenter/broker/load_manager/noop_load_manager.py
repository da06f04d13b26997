"""The load manager that balances nothing."""

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.reporting.report_identity import identity_report
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.bundle import Bundle


class NoopLoadManager:
    """No-op load manager: registers this broker and gives every bundle to whoever is asked.

    Worked example: a client looks a topic up at b2, and nobody owns its bundle: b2 does from then on, however loaded it
    is.

    When to use it: a single broker, or brokers that a proxy spreads clients over. When not: as soon as load shall move;
    nothing is reported, shed or split, and each bundle stays where it was first asked for.

    Source: Pulsar's `NoopLoadManager`. Where we differ: it knows all registered brokers, not itself alone, so that the
    namespace of another broker's SLA monitor goes to that broker; and it leaves the list when it is disabled.
    """

    def __init__(self, context: LoadManagerContext) -> None:
        self._context = context

    @property
    def is_centralized(self) -> bool:
        return False

    async def start(self) -> None:
        await self._context.registration.register(self._context.urls.broker_id, self.load_report())

    async def disable(self) -> None:
        await self._context.registration.unregister()

    async def stop(self) -> None:
        await self.disable()

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        reason = Reason(
            code=Code.DISABLED,
            strategy="NoopLoadManager",
            subject=str(bundle),
            detail="without balancing the broker that is asked takes the bundle",
            settings=("loadManagerClassName",),
        )
        return Placement.because(reason, str(bundle), self._context.urls.broker_id)

    async def write_report(self, *, force: bool = False) -> bool:
        return False

    async def shed(self) -> None:
        pass

    async def check_splits(self) -> None:
        pass

    async def write_resource_quotas(self) -> None:
        pass

    def load_report(self) -> LocalBrokerData:
        return msgspec.structs.replace(
            identity_report(self._context),
            last_update=self._context.env.clock.now_ms(),
            load_manager_class_name=ManagerKind.NOOP.class_name,
        )
