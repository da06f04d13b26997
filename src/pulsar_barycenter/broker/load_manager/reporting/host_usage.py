"""Measures how much of its machine a broker uses: CPU, memory and network.

There are two scopes, chosen by `loadBalancerHostUsageScope`:

| value | `process` (default) | `host` |
|---|---|---|
| `cpu` | CPU time of this process | busy time of all cores (idle and iowait are not busy) |
| `cpu` limit | 100 × cores on which this process may run, or its control group's quota | the same |
| `memory` | resident memory of this process | the same |
| `memory` limit | physical memory, or its control group's limit | the same |
| `directMemory` | 0: Python has none; its limit is that of `memory` | the same |
| bandwidths | bytes that this broker's topics receive and send | bytes of the physical network interfaces |
| bandwidth limit | `loadBalancerOverrideBrokerNicSpeedGbps` × interfaces, or their speeds, or 10 Gbit/s | the same |

Several brokers on one machine have different loads only in the `process` scope. Interfaces count if they are Ethernet,
not virtual, and up. In a container there may be none; then the override counts once. If no interface reports its speed,
Pulsar does not start; here the limit is DEFAULT_NIC_GBPS, so that a percentage is always defined.

Bandwidths of the broker's topics are as new as the rates of its bundles: one report never has the load of a bundle
without the bandwidth that it takes, or the other way round.

A measurement reads a few files of /proc and /sys in well under a millisecond, so it needs no thread.
Source: Pulsar's `LinuxBrokerHostUsageImpl` and `LinuxInfoUtils`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import psutil

from pulsar_barycenter.broker.load_manager.reporting.cgroup_limits import (
    CgroupLimits,
    available_cores,
    read_cgroup_limits,
)
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_report import ResourceUsage, SystemResourceUsage

DEFAULT_NIC_GBPS: Final = 10.0
_MEBIBYTE: Final = 1_048_576
_ETHERNET: Final = "1"
_USABLE_STATES: Final = frozenset({"up", "unknown", "dormant"})


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes/s that the broker's own topics receive and send."""

    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0


class UsageMeter(Protocol):
    """Measures the usage of the broker's machine. In a simulation, another meter is passed instead."""

    def measure(self, now_s: float, traffic: Traffic) -> SystemResourceUsage:
        """Measure and return the usage in the time since the last call; `now_s` is monotonic time. Does not block, and
        raises no error.
        """
        ...

    def carrying(self, measured: SystemResourceUsage, traffic: Traffic) -> SystemResourceUsage:
        """Return the usage `measured` of an earlier measurement, for a report that is made now. In the scope `process`,
        its bandwidths are replaced by those of the present `traffic` of the broker's topics, because they need no
        measurement.
        """
        ...


class FixedUsage:
    """A meter with a fixed usage; a simulation sets `usage`."""

    def __init__(self, usage: SystemResourceUsage | None = None) -> None:
        self.usage = usage or SystemResourceUsage()

    def measure(self, now_s: float, traffic: Traffic) -> SystemResourceUsage:
        return self.usage

    def carrying(self, measured: SystemResourceUsage, traffic: Traffic) -> SystemResourceUsage:
        return measured


@dataclass(frozen=True, slots=True)
class Capacity:
    """The limits of a machine: `cpu_percent` in percent of one core, `memory_mib` in MiB, `nic_kbps` in kbit/s for each
    direction.
    """

    cpu_percent: float
    memory_mib: float
    nic_kbps: float


class ProcessUsage:
    """Measures the usage of this process (the scope `process`). The first CPU value is 0, because there is no earlier
    reading.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._process = psutil.Process()
        self._before: tuple[float, float] | None = None
        self._cpu = 0.0

    def measure(self, now_s: float, traffic: Traffic) -> SystemResourceUsage:
        times = self._process.cpu_times()
        self._cpu = self._step(now_s, times.user + times.system)
        return _usage(
            self._capacity,
            self._cpu,
            self._process,
            _kilobits(traffic.bytes_in_per_s),
            _kilobits(traffic.bytes_out_per_s),
        )

    def carrying(self, measured: SystemResourceUsage, traffic: Traffic) -> SystemResourceUsage:
        limit = self._capacity.nic_kbps
        return msgspec.structs.replace(
            measured,
            bandwidth_in=ResourceUsage(_kilobits(traffic.bytes_in_per_s), limit),
            bandwidth_out=ResourceUsage(_kilobits(traffic.bytes_out_per_s), limit),
        )

    def _step(self, now_s: float, cpu_s: float) -> float:
        before, self._before = self._before, (now_s, cpu_s)
        if before is None:
            return 0.0
        elapsed_s = now_s - before[0]
        return 100.0 * (cpu_s - before[1]) / elapsed_s if elapsed_s > 0 else self._cpu


@dataclass(frozen=True, slots=True)
class _HostReading:
    at_s: float
    busy: float
    total: float
    bytes_in: int
    bytes_out: int


class HostUsage:
    """Measures the usage of the whole machine (the scope `host`). The first values of CPU and bandwidths are 0, because
    there is no earlier reading.
    """

    def __init__(self, capacity: Capacity, nics: tuple[str, ...], root: Path = Path("/")) -> None:
        self._capacity = capacity
        self._nics = nics
        self._root = root
        self._process = psutil.Process()
        self._before: _HostReading | None = None
        self._last = (0.0, 0.0, 0.0)

    def measure(self, now_s: float, traffic: Traffic) -> SystemResourceUsage:
        now = self._read(now_s)
        before, self._before = self._before, now
        if before is not None and now.at_s > before.at_s:
            elapsed_s = now.at_s - before.at_s
            ticks = now.total - before.total
            share = (now.busy - before.busy) / ticks if ticks > 0 else 0.0
            self._last = (
                share * self._capacity.cpu_percent,
                _kilobits((now.bytes_in - before.bytes_in) / elapsed_s),
                _kilobits((now.bytes_out - before.bytes_out) / elapsed_s),
            )
        cpu, kbps_in, kbps_out = self._last
        return _usage(self._capacity, cpu, self._process, kbps_in, kbps_out)

    def carrying(self, measured: SystemResourceUsage, traffic: Traffic) -> SystemResourceUsage:
        return measured

    def _read(self, now_s: float) -> _HostReading:
        first, *_ = _text(self._root / "proc/stat").splitlines() or [""]
        ticks = [int(part) for part in first.split()[1:] if part.isdigit()]
        idle = sum(ticks[3:5])
        statistics = [self._root / "sys/class/net" / nic / "statistics" for nic in self._nics]
        return _HostReading(
            now_s,
            busy=float(sum(ticks) - idle),
            total=float(sum(ticks)),
            bytes_in=sum(_number(folder / "rx_bytes") for folder in statistics),
            bytes_out=sum(_number(folder / "tx_bytes") for folder in statistics),
        )


def usage_meter(config: BrokerConfig, root: Path = Path("/")) -> UsageMeter:
    """Return the meter for the scope that `loadBalancerHostUsageScope` sets."""
    nics = network_interfaces(config.load_balancer_override_broker_nics, root)
    capacity = machine_capacity(nics, config.load_balancer_override_broker_nic_speed_gbps, root)
    if config.load_balancer_host_usage_scope == "host":
        return HostUsage(capacity, nics, root)
    return ProcessUsage(capacity)


def machine_capacity(nics: tuple[str, ...], nic_speed_gbps: float | None, root: Path = Path("/")) -> Capacity:
    """Return the limits of the machine's CPU, memory and network. `nic_speed_gbps` is the speed of each network
    interface in `nics`; None: the speeds that the interfaces report.
    """
    limits: CgroupLimits = read_cgroup_limits(root)
    physical = int(psutil.virtual_memory().total)
    if nic_speed_gbps is not None:
        nic_kbps = nic_speed_gbps * max(1, len(nics)) * 1e6
    else:
        megabits = sum(max(0, _number(root / "sys/class/net" / nic / "speed")) for nic in nics)
        nic_kbps = megabits * 1000.0 if megabits > 0 else DEFAULT_NIC_GBPS * 1e6
    return Capacity(
        cpu_percent=min(100.0 * available_cores(), limits.cpu_percent or float("inf")),
        memory_mib=min(physical, limits.memory_bytes or physical) / _MEBIBYTE,
        nic_kbps=nic_kbps,
    )


def network_interfaces(override: tuple[str, ...], root: Path = Path("/")) -> tuple[str, ...]:
    """Return `override` if it is not empty. Otherwise return the names of the Ethernet interfaces that are up and not
    virtual, sorted.
    """
    if override:
        return tuple(override)
    folder = root / "sys/class/net"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return ()
    return tuple(name for name in names if _is_physical(folder / name))


def _is_physical(nic: Path) -> bool:
    try:
        is_virtual = "/virtual/" in str(nic.resolve())
    except OSError:
        return False
    state = _text(nic / "operstate").strip()
    return not is_virtual and _text(nic / "type").strip() == _ETHERNET and state in _USABLE_STATES


def _usage(
    capacity: Capacity, cpu: float, process: psutil.Process, kbps_in: float, kbps_out: float
) -> SystemResourceUsage:
    return SystemResourceUsage(
        cpu=ResourceUsage(cpu, capacity.cpu_percent),
        memory=ResourceUsage(process.memory_info().rss / _MEBIBYTE, capacity.memory_mib),
        direct_memory=ResourceUsage(0.0, capacity.memory_mib),
        bandwidth_in=ResourceUsage(kbps_in, capacity.nic_kbps),
        bandwidth_out=ResourceUsage(kbps_out, capacity.nic_kbps),
    )


def _kilobits(bytes_per_s: float) -> float:
    return bytes_per_s * 8 / 1000


def _number(file: Path) -> int:
    try:
        return int(_text(file))
    except ValueError:
        return 0


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
