"""The capacity of brokers, and the model of their usage by traffic. The model is given, or fitted to brokers' reports.

CPU in percent of one core is

    idle + per_message * (msg/s in + out) + per_byte * (bytes/s in + out)

Memory is a constant plus an amount for each session. Bandwidth is the traffic in bytes. A broker that is slowed down by
a factor f takes f times the CPU for the same traffic.

Worked example (idle 5, 0.002 per msg/s): 8 cores and 100 000 msg/s in + out take 205 % of 800 %, a usage of 26 %.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.counted import count_of

KBIT: Final = 125.0
"""The bytes of a kbit."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of one broker: `cores` (CPU), `memory_mib`, and `network_kbits` (kbit/s, for inbound and for
    outbound traffic each).
    """

    cores: float = 8.0
    memory_mib: float = 16_384.0
    network_kbits: float = 10_000_000.0


LIKE_MOST: Final = Capacity()


@dataclass(frozen=True, slots=True)
class CapacityModel:
    """A linear model of what a broker uses: when idle, per message and byte of its traffic, and per session. CPU is in
    percent of one core, memory in MiB.
    """

    idle_cpu: float = 5.0
    cpu_per_message: float = 0.002
    cpu_per_byte: float = 0.0
    idle_memory_mib: float = 1_024.0
    memory_per_session_mib: float = 0.05

    def wanted(self, figures: Floats, sessions: Floats, slowdown: Floats) -> Floats:
        """Return how much of each resource the brokers would use if resources had no limits: one row for each of
        `load_report.RESOURCES`, one column for each broker.

        The arguments have one column for each broker. `figures` has four rows: msg/s in and out, bytes/s in and out.
        `slowdown` is the factor by which a broker takes more CPU than the model says.
        """
        rate_in, rate_out, bytes_in, bytes_out = figures
        traffic = self.cpu_per_message * (rate_in + rate_out) + self.cpu_per_byte * (bytes_in + bytes_out)
        memory = self.idle_memory_mib + self.memory_per_session_mib * sessions
        cpu = (self.idle_cpu + traffic) * slowdown
        return np.array([cpu, memory, np.zeros(len(cpu)), bytes_in / KBIT, bytes_out / KBIT])


def limits(capacities: list[Capacity]) -> Floats:
    """Return the limits of the brokers in the units of load reports: one row for each of `load_report.RESOURCES`, one
    column for each broker.
    """
    rows = [
        (each.cores * 100, each.memory_mib, each.memory_mib, each.network_kbits, each.network_kbits)
        for each in capacities
    ]
    return np.array(rows, float).reshape(-1, 5).T


@dataclass(frozen=True, slots=True)
class Fit:
    """A model that was fitted to `samples` reports. `determination` is R² for CPU (1: the model is exact; 0: it is no
    better than the mean).
    """

    model: CapacityModel
    samples: int
    determination: float
    error_percent: float
    """The root mean square error of CPU, in percent of one core."""

    def __str__(self) -> str:
        quality = f"R² {self.determination:.3f}, error {self.error_percent:.1f} % of a core"
        return f"CPU fitted to {count_of(self.samples, 'report')}: {quality}"


def fit(cpu: Floats, rate: Floats, throughput: Floats, like: CapacityModel | None = None) -> Fit:
    """Return the model with the least squared error of CPU (percent of one core), without negative coefficients.

    The arrays have one item per report; `rate` and `throughput` are in + out. The memory terms are those of `like`
    (None: the default ones). Reports whose CPU is negative or not finite are left out. Least squares are computed for
    each subset of the three terms (idle, per message, per byte), and the best result without a negative coefficient is
    returned. So a term that explains nothing is 0.
    """
    base = like or CapacityModel()
    known = np.isfinite(cpu) & (cpu >= 0)
    cpu, rate, throughput = cpu[known], rate[known], throughput[known]
    columns = np.array([np.ones(len(cpu)), rate, throughput])
    best, least = np.zeros(3), np.inf
    for chosen in range(1, 8):
        which = [place for place in range(3) if chosen >> place & 1]
        part = columns[which]
        scale = np.maximum(np.abs(part).max(axis=1, initial=0.0), 1e-12)
        found = np.linalg.lstsq((part / scale[:, None]).T, cpu, rcond=None)[0] / scale
        error = float(((cpu - found @ part) ** 2).sum())
        if (found >= 0).all() and error < least * (1 - 1e-9):
            best, least = np.zeros(3), error
            best[which] = found
    spread = float(((cpu - cpu.mean()) ** 2).sum()) if len(cpu) else 0.0
    count = max(1, len(cpu))
    model = CapacityModel(
        float(best[0]), float(best[1]), float(best[2]), base.idle_memory_mib, base.memory_per_session_mib
    )
    unexplained = 0.0 if not np.isfinite(least) else least
    determination = 1.0 - unexplained / spread if spread > 0 else float(unexplained <= 1e-9)
    return Fit(model, len(cpu), determination, float(np.sqrt(unexplained / count)))
