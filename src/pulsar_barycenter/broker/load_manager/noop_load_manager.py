"""The load manager that does no balancing."""

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.reporting.report_identity import identity_report
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.bundle import Bundle


class NoopLoadManager:
    """No-op load manager: registers this broker, and each broker takes the bundles that clients look up at it.

    Worked example: a client looks a topic up at b2, and its bundle has no owner: b2 becomes the owner, however loaded
    it is.

    When to use it: a single broker, or brokers behind a proxy that distributes clients. When not: if load has to move;
    nothing is reported, shed or split, and each bundle stays on the broker where it was first looked up.

    Source: Pulsar's `NoopLoadManager`. Differences: it knows all registered brokers, not only itself, so that the
    namespace of another broker's SLA monitor goes to that broker; and it removes its registration when it is disabled.
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
            detail="without balancing the broker that gets the look-up takes the bundle",
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
