"""Generates traces from a seed: a mix of topics that is typical of busy clusters."""

import math
import random

from pulsar_barycenter.replay.synthetic.shapes import daily_swing
from pulsar_barycenter.replay.traces import Trace

SYNTHETIC_TOPICS = 12
_STEP_MS = 300_000
_STEPS_OF_A_DAY = 288
_BUSIEST_PER_STEP = 120.0
_BURST_CHANCE = 0.01
_BURST_FACTOR = 6.0


def synthetic_traces(seed: int, *, topics: int = SYNTHETIC_TOPICS, days: int = 2) -> list[Trace]:
    """Return generated traces of topics as in busy clusters: of different sizes, with a daily swing and bursts. Each
    trace covers `days` days in steps of 5 minutes.

    Topic k (from 1) has 1/k of the busiest topic's mean of 120 events per step (Zipf's law), with random noise. It
    swings by ±60 % over the day, with a random phase. On average in one of a hundred steps, it has six times its rate.
    """
    chance = random.Random(seed)
    return [_synthetic_trace(rank, chance, days) for rank in range(1, topics + 1)]


def _synthetic_trace(rank: int, chance: random.Random, days: int) -> Trace:
    phase = chance.random() * 2 * math.pi
    values = []
    for step in range(days * _STEPS_OF_A_DAY):
        swing = float(daily_swing(step * _STEP_MS / 1000, 0.6, phase))
        burst = _BURST_FACTOR if chance.random() < _BURST_CHANCE else 1.0
        values.append(_BUSIEST_PER_STEP / rank * swing * burst * chance.uniform(0.8, 1.2))
    return Trace(f"synthetic-{rank:02d}", 0, _STEP_MS, tuple(values))
