"""Runs the replays of a recommendation on the processors of this machine; each process reads the input itself."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import lru_cache
from statistics import fmean
from typing import Final

import click
import msgspec

from pulsar_barycenter.lab.inputs import Input, InputSpec, read_input
from pulsar_barycenter.lab.processes import pool_of
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.parts import Parts, Trial, attempt
from pulsar_barycenter.replay.advice.search import CLIMBED, Question, wanted
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.terminal.progress import with_progress

_TOLD_FROM_S: Final = 120.0
_ESTIMATED_BY: Final = 3
_EXPECTED_MORE: Final = 14
"""The usual number of configurations that one climb of the search tries, including those of the final evidence."""

_Job = tuple[Scenario, InputSpec, Mapping[str, str], Parts]


def run(
    question: Question, starts: int, spec: InputSpec, seeds: Sequence[int], parts: Parts, processes: int
) -> dict[str, list[Trial]]:
    """Run a search for a better configuration, and return the results of all replays (`Trial`), by configuration.

    The function `search.wanted` selects the next configurations from the results so far; each is replayed once for each
    seed, until it selects no more. A key of the result is the name of the configuration's scenario with seed 0; the
    list has one trial for each seed. `question` is the input of the search, `spec` describes the input of the replays,
    and `parts` are the parts of the history on which a configuration is selected and confirmed. `starts` is only used
    for the estimate of the duration. Progress and this estimate are shown on standard error.
    """
    known: dict[str, list[Trial]] = {}
    estimate = _Estimate((starts + CLIMBED * _EXPECTED_MORE) * len(seeds), processes)
    with nullcontext() if processes == 1 else pool_of(processes) as pool:
        while batch := wanted(question, known):
            what = f"trying {count_of(len(batch), 'configuration')} on {count_of(len(seeds), 'seed')}"
            click.echo(f"{what}; {count_of(len(known), 'configuration')} tried already", err=True)
            # ordered by seed, because a process keeps the input of one seed
            jobs = [(scenario, seed) for seed in seeds for scenario in batch]
            found: dict[tuple[str, int], Trial] = {}
            ordered = [
                (msgspec.structs.replace(scenario, seed=seed), spec, question.base, parts) for scenario, seed in jobs
            ]
            for (scenario, seed), (trial, took_s) in zip(jobs, _results(pool, ordered, what), strict=True):
                found[scenario.name, seed] = trial
                estimate.one_is_done(took_s)
            known |= {scenario.name: [found[scenario.name, seed] for seed in seeds] for scenario in batch}
    return known


def _results(pool: ProcessPoolExecutor | None, jobs: Sequence[_Job], what: str) -> Iterator[tuple[Trial, float]]:
    """Run the jobs, in `pool` or, without one, in this process. Yield for each job, in the order of `jobs`, its trial
    and its duration in seconds. `what` is the title of the progress bar.
    """
    if pool is None:
        yield from (_attempt(*job) for job in with_progress(jobs, what))
        return
    tasks = [pool.submit(_attempt, *job) for job in jobs]
    yield from (task.result() for task in with_progress(tasks, what))


class _Estimate:
    """Estimates the total duration of a search after its first replays, and prints this once on standard error if the
    duration is long.
    """

    def __init__(self, runs: int, processes: int) -> None:
        self._runs, self._processes = runs, processes
        self._times_s: list[float] = []

    def one_is_done(self, took_s: float) -> None:
        self._times_s.append(took_s)
        if len(self._times_s) != _ESTIMATED_BY:
            return
        all_s = fmean(self._times_s) * self._runs / self._processes
        if all_s > _TOLD_FROM_S:
            click.echo(
                f"this takes about {all_s / 60:.0f} min; to shorten it: a longer --step, a shorter period (--since,"
                " --until), fewer --seeds, or fewer candidates (--strategy)",
                err=True,
            )


@lru_cache(maxsize=1)
def _input_of(spec: bytes, seed: int) -> Input:
    return read_input(msgspec.json.decode(spec, type=InputSpec), seed)


def _attempt(scenario: Scenario, spec: InputSpec, base: Mapping[str, str], parts: Parts) -> tuple[Trial, float]:
    """Replay `scenario` on the input that `spec` describes; return its trial, and the duration of the replay in
    seconds, without the time to read the input. `base` are the settings of broker.conf that the scenario's settings
    override; `parts` are the parts of the history for which the trial has values.
    """
    found = _input_of(msgspec.json.encode(spec), scenario.seed)
    began_s = time.monotonic()
    trial = attempt(scenario, found.demand, found.cluster, found.events, base, parts)
    return trial, time.monotonic() - began_s
