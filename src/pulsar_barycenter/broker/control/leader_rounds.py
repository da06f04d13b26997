"""The periodic duties of a leader's load manager, and the load report of every broker."""

import asyncio
from collections.abc import Callable

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.leadership import Duty
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.instruments import Instruments
from pulsar_barycenter.broker.load_manager.switch import LoadManagerSwitch
from pulsar_barycenter.config.broker_config import BrokerConfig


class LeaderRounds:
    """Returns the duties of the leader's load manager: work that the leader repeats. While `loadBalancerEnabled` is
    false, the duties run but do nothing.
    """

    def __init__(
        self, config: ConfigHolder, switch: LoadManagerSwitch, registration: Registration, instruments: Instruments
    ) -> None:
        self._config = config
        self._switch = switch
        self._instruments = instruments
        self._brokers_changed = asyncio.Event()
        registration.on_change(self._brokers_changed.set)

    def shedding(self) -> Duty:
        """Return the duty that unloads bundles from overloaded brokers."""
        return Duty("load shedding", self._shed, self._minutes(_shedding_minutes))

    def split_check(self) -> Duty:
        """Return the duty that splits bundles that are too large. It runs periodically, and soon after a broker joined,
        left or wrote a load report.
        """
        return Duty("split check", self._check_splits, self._minutes(_shedding_minutes), wake=self._brokers_changed)

    def quotas(self) -> Duty:
        """Return the duty that stores the resource quotas: averages of the load of bundles and brokers."""
        return Duty("resource quotas", self._write_quotas, self._minutes(_quota_minutes))

    async def write_report(self) -> None:
        """Publish this broker's load if enough has changed or enough time has passed since the last report. Every
        broker does this, not only the leader. Does nothing while `loadBalancerEnabled` is false.
        """
        if self._config.current.load_balancer_enabled:
            await self._switch.current.write_report()

    async def _shed(self) -> None:
        if self._config.current.load_balancer_enabled:
            with self._instruments.round("shed"):
                await self._switch.current.shed()

    async def _check_splits(self) -> None:
        if self._config.current.load_balancer_enabled:
            await self._switch.current.check_splits()

    async def _write_quotas(self) -> None:
        if self._config.current.load_balancer_enabled:
            with self._instruments.round("quotas"):
                await self._switch.current.write_resource_quotas()

    def _minutes(self, minutes: Callable[[BrokerConfig], float]) -> Callable[[], float]:
        """Return a function that reads a setting in minutes from the present configuration and returns it in seconds.
        `minutes` selects the setting.
        """
        return lambda: minutes(self._config.current) * 60


def _shedding_minutes(config: BrokerConfig) -> float:
    return config.load_balancer_shedding_interval_minutes


def _quota_minutes(config: BrokerConfig) -> float:
    return config.load_balancer_resource_quota_update_interval_minutes
