"""This broker's present load: the stats of its bundles and the usage of its machine, for any load manager's report."""

import asyncio
import math
from typing import Final

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.reporting.host_usage import Traffic, UsageMeter
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, SystemResourceUsage, exact_sum
from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, SessionEvent

_NO_STATS: Final = NamespaceBundleStats()


class LocalLoad:
    """Measures the load of this broker, and knows whether a load report can be written to the store now."""

    def __init__(self, context: LoadManagerContext, meter: UsageMeter) -> None:
        self._context = context
        self._meter = meter
        self._usage = SystemResourceUsage()
        self._measured_at_s = -math.inf
        self._connected = True
        self._sessions = 1
        self._written_in: tuple[int, int] | None = None
        self._closed = False
        self._stop_listening = context.env.store.add_session_listener(self._on_session_event)

    def close(self) -> None:
        """Make `may_write` False for ever, so that no more load reports are written."""
        self._closed = True
        self._stop_listening()

    @property
    def may_write(self) -> bool:
        """Whether a load report can be written now: the broker is registered, and its session is connected."""
        return not self._closed and self._connected and self._context.registration.is_registered

    def wrote(self) -> None:
        """Record that a load report was written."""
        self._written_in = self._connection

    @property
    def was_reconnected(self) -> bool:
        """Whether the session or the registration has changed since the last written report.

        The last written report may have been deleted meanwhile, so the other brokers need a new one.
        """
        return self._written_in is not None and self._written_in != self._connection

    @property
    def _connection(self) -> tuple[int, int]:
        return self._sessions, self._context.registration.times_taken

    def stats(self) -> dict[str, NamespaceBundleStats]:
        """Return the stats of every bundle that this broker owns; zeros for a bundle without loaded topics."""
        measured = self._context.bundle_stats()
        names = map(str, self._context.owned_bundles())
        return {name: measured.get(name, _NO_STATS) for name in names}

    def usage(self, stats: dict[str, NamespaceBundleStats]) -> SystemResourceUsage:
        """Return the machine's usage. It is measured again only if the last measurement is at least
        `loadBalancerHostUsageCheckIntervalMinutes` old. In the scope `process`, the bandwidths are always the present
        ones of the topics in `stats`.
        """
        now_s = asyncio.get_running_loop().time()
        interval_s = self._context.config.current.load_balancer_host_usage_check_interval_minutes * 60
        traffic = Traffic(
            bytes_in_per_s=exact_sum(bundle.msg_throughput_in for bundle in stats.values()),
            bytes_out_per_s=exact_sum(bundle.msg_throughput_out for bundle in stats.values()),
        )
        if now_s - self._measured_at_s >= interval_s:
            self._measured_at_s = now_s
            self._usage = self._meter.measure(now_s, traffic)
        return self._meter.carrying(self._usage, traffic)

    def _on_session_event(self, event: SessionEvent) -> None:
        self._connected = event in CONNECTED_EVENTS
        self._sessions += event is SessionEvent.SESSION_REESTABLISHED
