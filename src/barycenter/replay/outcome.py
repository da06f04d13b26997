"""What is kept of a run: who carried what at each step, and all that was decided."""

from dataclasses import dataclass

import msgspec

from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers


class Moved(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle went to another broker. `kind` is "unload", "split" (a part that was unloaded) or "assign" (it had no
    owner). `topics` and `sessions` were disturbed for `gap_ms`. `misplaced`: the destination's usage was above the
    mean after the step's moves. `rate` is msg/s in + out."""

    at_ms: int
    kind: str
    bundle: str
    source: str = ""
    destination: str = ""
    rate: float = 0.0
    topics: int = 0
    sessions: int = 0
    gap_ms: int = 0
    misplaced: bool = False
    why: str = ""


class Divided(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle was split."""

    at_ms: int
    bundle: str
    broker: str
    parts: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row a step, a column a broker.

    `usage` is the true largest share of CPU and bandwidths, 1.0 is full, and beyond; `cpu` that of CPU alone; `rate`
    and `throughput` are in + out. `live` says who was there. `floor` is, for each step, the least usage that the most
    loaded broker can have, wherever bundles are: by total load over capacities, or the largest load that no split can
    part on the strongest broker.

    `at_ms` is when each step begins. `event_ms` are the times of the events that happened within the steps.
    """

    at_ms: Integers
    step_ms: int
    brokers: tuple[str, ...]
    live: Flags
    usage: Floats
    cpu: Floats
    rate: Floats
    throughput: Floats
    unserved: Floats
    """Rate (msg/s in + out) of bundles that nobody served, a figure a step."""
    floor: Floats
    moves: tuple[Moved, ...]
    splits: tuple[Divided, ...]
    unserved_topic_s: float
    event_ms: tuple[int, ...]
    bundles: int
    overload_limit: float = 0.85
