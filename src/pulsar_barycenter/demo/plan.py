"""The messages between a demo and its client process, as JSON lines: the plan, marks, progress and the result."""

import msgspec


class TopicPlan(msgspec.Struct, frozen=True):
    """One topic and the rates it follows: events in each `step_ms` of trace time."""

    topic: str
    step_ms: int
    values: list[float]


class ClientPlan(msgspec.Struct, frozen=True):
    """The plan of a run. Trace time passes `speedup` times as fast as the clock. A topic's rate is never below
    `least_rate` nor above `most_rate` (messages per second): every topic always has messages, so that a time without
    service is seen.
    """

    service_url: str
    topics: list[TopicPlan]
    duration_s: float
    speedup: float
    payload_bytes: int = 1024
    least_rate: float = 4.0
    most_rate: float = 3000.0
    gap_from_s: float = 0.25
    drain_timeout_s: float = 60.0


class Mark(msgspec.Struct, frozen=True, tag="mark"):
    """A request to the process of the clients: measure the time from now until each of `topics` is served again."""

    topics: list[str]


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The total numbers of messages sent and received until the time `at` (seconds since 1970)."""

    at: float
    produced: int
    consumed: int
    waiting: int
    recovered: dict[str, float]


class TopicResult(msgspec.Struct, frozen=True):
    topic: str
    produced: int
    consumed: int
    lost: int
    duplicated: int
    out_of_order: int
    failed: int
    longest_gap_s: float
    gaps: list[tuple[float, float]]


class ClientResult(msgspec.Struct, frozen=True, tag="result"):
    """The result of the clients at the end of the run. `recovered` maps each topic of a `Mark` to the seconds from the
    mark to the first receipt of a message that was sent after the mark.
    """

    topics: list[TopicResult]
    recovered: dict[str, float]


ClientLine = Progress | ClientResult
