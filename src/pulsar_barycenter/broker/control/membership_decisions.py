"""Adds to the decision log what no load manager decides: that a broker became leader, and that a leaving broker
released its bundles.

`barycenter explain` shows these decisions with the others.
"""

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.contract import KeepsDecisions
from pulsar_barycenter.broker.load_manager.switch import LoadManagerSwitch
from pulsar_barycenter.load.managers import manager_in_force
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.metadata.coordination.epochs import Epoch, Predecessor
from pulsar_barycenter.naming.bundle import Bundle


class MembershipDecisions:
    """Writes changes of the cluster's membership to the decision log of the load manager. If the present load manager
    has no decision log, nothing is written.
    """

    def __init__(self, config: ConfigHolder, env: Environment, switch: LoadManagerSwitch) -> None:
        self._config = config
        self._env = env
        self._switch = switch

    def handed_over(self, bundle: Bundle, source: str, why: str) -> None:
        """Record that the broker `source` released a bundle because it leaves."""
        manager = self._switch.current
        if isinstance(manager, KeepsDecisions):
            reason = Reason(code=Code.BROKER_LEAVES, subject=str(bundle), detail=why)
            self._env.instruments.decided("unload", reason.code)
            manager.decisions.record(
                self._env.clock.now_ms(),
                "unload",
                reason,
                bundle=str(bundle),
                source=source,
                manager=manager_in_force(self._config.current),
            )

    def elected(self, epoch: Epoch, broker_id: str) -> None:
        """Record that the broker `broker_id` is the leader from now on, and why the previous leader is the leader no
        more.
        """
        if not self._switch.is_made or not isinstance(manager := self._switch.current, KeepsDecisions):
            return
        before = epoch.before
        manager.decisions.record(
            self._env.clock.now_ms(),
            "elect",
            Reason(code=_why_elected(broker_id, before), subject=broker_id, detail=f"leader epoch {epoch.number}"),
            source="" if before is None else before.broker_id,
            destination=broker_id,
            manager=manager_in_force(self._config.current),
            epoch=epoch.number,
        )


def _why_elected(broker_id: str, before: Predecessor | None) -> Code:
    if before is None:
        return Code.FIRST_LEADER
    if before.has_released:
        return Code.LEADER_RELEASED
    return Code.LEADS_AGAIN if before.broker_id == broker_id else Code.LEADER_GONE
