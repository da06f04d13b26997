"""A cluster that is rolled, on the time of the running loop: brokers restart, report late, and lose leadership.

`calls` counts requests and restarts; at call number `kill_at` the tool dies: before the request has an effect, or after
it, if `kills_after`.
"""

import asyncio
from collections.abc import Collection, Mapping

from pulsar_barycenter.operations.own_balancing import PAUSED_KEYS
from pulsar_barycenter.operations.rolling.plan import MayServe
from pulsar_barycenter.operations.rolling.reports import SeenReport, Where

AWAY_S = 3.0
REPORTS_AFTER_S = 2.0


class Killed(BaseException):
    """The tool is killed."""


class RolledCluster:
    """Brokers of `names`, the first of which leads; bundles with their owners. Settings are on for all keys."""

    def __init__(
        self, names: Collection[str], owners: Mapping[str, str], loads: Mapping[str, float] | None = None
    ) -> None:
        self.names = list(names)
        self.listed = set(names)
        self.sick: set[str] = set()
        self.unresolved: set[str] = set()
        self.owners: dict[str, str] = dict(owners)
        self.of_loads = dict(loads or {})
        self.leads = self.names[0]
        self.lives: dict[str, int] = dict.fromkeys(names, 1)
        self.shows_identity = True
        self.reported_ms: dict[str, int] = dict.fromkeys(names, 1)
        self.in_file = dict.fromkeys(PAUSED_KEYS, "true")
        self.stored: dict[str, str] = {}
        self.restarts: list[str] = []
        self.lost: list[str] = []
        """The bundles that a broker had when it restarted."""
        self.unloads: list[str] = []
        self.puts_elsewhere: dict[str, list[str]] = {}
        """For a bundle, the brokers that get it at its next unloads instead of the destination."""
        self.of_groups: dict[str, str] = {}
        self.allowed: dict[str, frozenset[str]] = {}
        self.hook_comes_back = True
        self.where = Where.LEADER
        self.calls = 0
        self.kill_at = -1
        self.kills_after = False
        self.events: list[str] = []

    def _now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000) + 2

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at and not self.kills_after:
            raise Killed

    def _done(self) -> None:
        if self.calls == self.kill_at and self.kills_after:
            raise Killed

    # ---- what brokers answer ----

    async def brokers(self) -> list[str]:
        self._call()
        return sorted(self.listed)

    async def leader(self) -> str:
        self._call()
        return self.leads

    async def owned(self, broker: str) -> frozenset[str]:
        self._call()
        return frozenset(bundle for bundle, owner in self.owners.items() if owner == broker)

    async def loads(self) -> Mapping[str, float]:
        return self.of_loads

    async def may_serve(self, brokers: Collection[str]) -> MayServe:
        everywhere = frozenset(brokers)
        return lambda bundle: self.allowed.get(bundle, everywhere)

    async def groups(self, namespaces: Collection[str]) -> Mapping[str, str]:
        return {namespace: self.of_groups[namespace] for namespace in namespaces if namespace in self.of_groups}

    async def is_healthy(self, broker: str) -> bool:
        self._call()
        return broker not in self.sick

    async def resolves(self, broker: str) -> bool:
        return broker not in self.unresolved

    async def identity(self, broker: str) -> str:
        self._call()
        return f"{broker} {self.lives[broker]}" if self.shows_identity else ""

    async def report(self, broker: str) -> SeenReport:
        self._call()
        bundles = frozenset(bundle for bundle, owner in self.owners.items() if owner == broker)
        return SeenReport(self.where, self.reported_ms.get(broker, 0), "", bundles, lists_bundles=True)

    async def serves(self, broker: str, bundle: str) -> bool:
        self._call()
        return self.owners[bundle] == broker

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        return frozenset(bundle for bundle in bundles if self.owners[bundle] == broker)

    async def look_up(self, bundle: str) -> str:
        self._call()
        return self.owners[bundle]

    async def unload(self, bundle: str, destination: str) -> None:
        self._call()
        assert destination in self.listed
        self.unloads.append(bundle)
        self.events.append(f"move {bundle}")
        elsewhere = self.puts_elsewhere.get(bundle)
        self.owners[bundle] = receiver = elsewhere.pop(0) if elsewhere else destination
        self._reports(receiver)
        self._done()

    # ---- settings ----

    async def settings(self, broker: str = "") -> dict[str, str]:
        self._call()
        return {**self.in_file, **self.stored, "loadBalancerReportUpdateMinIntervalMillis": "1000"}

    async def overrides(self) -> dict[str, str]:
        self._call()
        return dict(self.stored)

    async def set_override(self, key: str, value: str) -> None:
        self._call()
        self.stored[key] = value
        self._done()

    async def delete_override(self, key: str) -> None:
        self._call()
        del self.stored[key]
        self._done()

    # ---- restarts ----

    async def restart(self, broker: str) -> None:
        """A hook: the broker goes away, and is back some seconds later."""
        self._call()
        self.restarts.append(broker)
        self.events.append(f"restart {broker}")
        self.lost += [bundle for bundle, owner in self.owners.items() if owner == broker]
        self.listed.discard(broker)
        self.reported_ms.pop(broker, None)
        if self.leads == broker:
            self.leads = min(self.listed)
        if self.hook_comes_back:
            asyncio.get_running_loop().call_later(AWAY_S, self.come, broker)
        self._done()

    async def start(self, broker: str) -> None:
        self._call()
        self.come(broker)
        self._done()

    def come(self, broker: str) -> None:
        if broker not in self.listed:
            self.lives[broker] = self.lives.get(broker, 0) + 1
            self.listed.add(broker)
            self._reports(broker)

    def _reports(self, broker: str) -> None:
        def report() -> None:
            self.reported_ms[broker] = self._now_ms()
            self.events.append(f"report {broker}")

        asyncio.get_running_loop().call_later(REPORTS_AFTER_S, report)
