"""Carries out a shedding round (one run of the leader's load shedding): awaits the steps of `load.rounds.round.moves`
one after the other.

It needs numpy; only a leader imports it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator

from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.rounds.round import RoundOutcome, UnloadOutcome


async def carry_out_round(
    steps: Generator[Unload | Refusal, UnloadOutcome | None, RoundOutcome],
    executor: DecisionExecutor,
    unload: Callable[[Unload], Awaitable[UnloadOutcome]],
    *,
    may_continue: Callable[[], bool],
    stays: Callable[[Refusal], None] = lambda _refusal: None,
) -> list[Unload]:
    """Unload every bundle of a shedding round with `unload`, and log every decision that is not carried out (refusal);
    return the unloads that were carried out.

    `stays` is called with each refusal. `may_continue` is called before each step; the round ends when it returns
    False, because another broker is the leader. Other tasks run after each step; load reports that arrive in between
    are used for the next unload.
    """
    unloaded = []
    try:
        step = next(steps)
        while may_continue():
            if isinstance(step, Refusal):
                executor.refuse(step.action, step.subject, step.source, step.reason)
                stays(step)
                await asyncio.sleep(0)
                step = next(steps)
                continue
            carried = await unload(step)
            if carried.done:
                unloaded.append(step)
            step = steps.send(carried)
    except StopIteration:
        pass
    finally:
        steps.close()
    return unloaded
