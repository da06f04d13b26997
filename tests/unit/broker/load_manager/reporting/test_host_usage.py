"""The share of its machine that a broker uses, on generated file systems."""

from pathlib import Path

import pytest

from pulsar_barycenter.broker.load_manager.reporting.cgroup_limits import (
    CgroupLimits,
    available_cores,
    read_cgroup_limits,
)
from pulsar_barycenter.broker.load_manager.reporting.host_usage import (
    DEFAULT_NIC_GBPS,
    Capacity,
    HostUsage,
    ProcessUsage,
    Traffic,
    machine_capacity,
    network_interfaces,
    usage_meter,
)
from pulsar_barycenter.config.broker_config import BrokerConfig

MEBIBYTE = 1_048_576


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def add_nic(
    root: Path, name: str, *, virtual: bool = False, kind: int = 1, state: str = "up", speed: str = "1000"
) -> None:
    device = root / "sys/devices" / ("virtual" if virtual else "pci0") / "net" / name
    write(device, {"type": f"{kind}\n", "operstate": f"{state}\n", "speed": speed})
    write(device, {"statistics/rx_bytes": "0", "statistics/tx_bytes": "0"})
    (root / "sys/class/net").mkdir(parents=True, exist_ok=True)
    (root / "sys/class/net" / name).symlink_to(device)


def test_limits_of_version_2_are_the_tightest_up_the_tree(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/one\n",
            "sys/fs/cgroup/pods/one/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pods/one/memory.max": "max\n",
            "sys/fs/cgroup/pods/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pods/memory.max": str(512 * MEBIBYTE),
        },
    )
    assert read_cgroup_limits(tmp_path) == CgroupLimits(150.0, 512 * MEBIBYTE)


def test_limits_of_version_2_inside_a_container_stand_at_the_mount(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000"})
    assert read_cgroup_limits(tmp_path) == CgroupLimits(50.0, None)


def test_limits_of_version_1_come_from_each_controller(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(64 * MEBIBYTE),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert read_cgroup_limits(tmp_path) == CgroupLimits(300.0, 64 * MEBIBYTE)


@pytest.mark.parametrize("text", ["", "garbage", "0::", "x:y"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"proc/self/cgroup": text, "sys/fs/cgroup/cpu.max": "many 0"})
    assert read_cgroup_limits(tmp_path) == CgroupLimits()


def test_interfaces_are_physical_ethernet_that_is_up(tmp_path: Path) -> None:
    add_nic(tmp_path, "eth0")
    add_nic(tmp_path, "eth1", state="down")
    add_nic(tmp_path, "eth2", state="unknown")
    add_nic(tmp_path, "lo", kind=772)
    add_nic(tmp_path, "veth3", virtual=True)
    assert network_interfaces((), tmp_path) == ("eth0", "eth2")
    assert network_interfaces(("veth3",), tmp_path) == ("veth3",)
    assert network_interfaces((), tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("nics", "gbps", "kbps"),
    [
        (("eth0", "eth1"), None, 2_000_000),
        (("eth0", "eth1"), 2.5, 5_000_000),
        ((), 2.5, 2_500_000),
        ((), None, DEFAULT_NIC_GBPS * 1e6),
        (("unplugged",), None, DEFAULT_NIC_GBPS * 1e6),
    ],
)
def test_the_speed_given_is_per_interface_and_there_is_always_a_limit(
    tmp_path: Path, nics: tuple[str, ...], gbps: float | None, kbps: float
) -> None:
    add_nic(tmp_path, "eth0")
    add_nic(tmp_path, "eth1")
    add_nic(tmp_path, "unplugged", speed="-1")
    assert machine_capacity(nics, gbps, tmp_path).nic_kbps == kbps


def test_the_quota_of_the_container_is_the_limit_of_cpu_and_memory(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "5000 100000"})
    write(tmp_path, {"sys/fs/cgroup/memory.max": str(100 * MEBIBYTE)})
    capacity = machine_capacity((), None, tmp_path)
    assert (capacity.cpu_percent, capacity.memory_mib) == (5.0, 100.0)
    assert machine_capacity((), None, tmp_path / "none").cpu_percent == 100.0 * available_cores()


def test_the_process_scope_measures_this_process_and_its_own_traffic() -> None:
    meter = ProcessUsage(Capacity(200.0, 1000.0, 1e6))
    first = meter.measure(10.0, Traffic())
    sum(range(1_000_000))
    second = meter.measure(11.0, Traffic(bytes_in_per_s=1_250_000, bytes_out_per_s=125_000))
    assert (first.cpu.usage, first.cpu.limit) == (0.0, 200.0)
    assert 0 < second.cpu.usage < 100_000
    assert (second.bandwidth_in.usage, second.bandwidth_out.usage, second.bandwidth_in.limit) == (10_000, 1000, 1e6)
    assert 0 < second.memory.usage < second.memory.limit * 1000
    assert second.direct_memory.percent == 0
    assert meter.measure(11.0, Traffic()).cpu == second.cpu, "no time passed: the figure of before"


def test_bandwidths_of_topics_are_newer_than_the_measurement_and_those_of_the_machine_are_not(tmp_path: Path) -> None:
    before, now = Traffic(), Traffic(bytes_in_per_s=1_250_000, bytes_out_per_s=125_000)
    capacity = Capacity(200.0, 1000.0, 1e6)
    meter = ProcessUsage(capacity)
    measured = meter.measure(10.0, before)
    newer = meter.carrying(measured, now)
    assert (newer.bandwidth_in.usage, newer.bandwidth_out.usage, newer.bandwidth_in.limit) == (10_000, 1000, 1e6)
    assert (newer.cpu, newer.memory) == (measured.cpu, measured.memory)
    machine = HostUsage(capacity, (), tmp_path)
    measured = machine.measure(10.0, before)
    assert machine.carrying(measured, now) == measured


def test_the_host_scope_measures_the_machine(tmp_path: Path) -> None:
    """Of 100 ticks 60 idle and 10 waiting for disks leave 30 busy, of 400 %; 1 MB in 2 s are 4,000 kbit/s."""
    add_nic(tmp_path, "eth0")
    write(tmp_path, {"proc/stat": "cpu 10 0 10 100 5 0 0\ncpu0 1 1 1 1\n"})
    meter = HostUsage(Capacity(400.0, 1000.0, 1e6), ("eth0",), tmp_path)
    assert meter.measure(5.0, Traffic(1e9, 1e9)).cpu.usage == 0
    write(tmp_path, {"proc/stat": "cpu 30 0 20 160 15 0 0\n"})
    write(tmp_path / "sys/class/net/eth0/statistics", {"rx_bytes": "1000000", "tx_bytes": "250"})
    usage = meter.measure(7.0, Traffic(1e9, 1e9))
    assert usage.cpu.usage == pytest.approx(0.3 * 400)
    assert (usage.bandwidth_in.usage, usage.bandwidth_out.usage) == (4000, 1)
    assert meter.measure(7.0, Traffic()).cpu.usage == pytest.approx(120)


def test_a_machine_that_tells_nothing_stops_nobody(tmp_path: Path) -> None:
    for scope in ("host", "process"):
        meter = usage_meter(BrokerConfig(load_balancer_host_usage_scope=scope), tmp_path)  # type: ignore[arg-type]
        meter.measure(1.0, Traffic())
        assert meter.measure(2.0, Traffic(5, 5)).bandwidth_in.limit == DEFAULT_NIC_GBPS * 1e6
