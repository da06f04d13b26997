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
    """Carry out a shedding round: unload its bundles one after the other. Return the unloads that succeeded.

    `steps` yields the next decision: an unload, or a refusal (a bundle that is not unloaded, with the reason). `unload`
    carries out an unload; its outcome is sent to `steps`, which uses it for the next decision. A refusal is logged and
    passed to `stays`. Before each decision is carried out, `may_continue` is called; if it returns False, because this
    broker may not act as leader any more, the round ends. Other tasks run between two decisions, so load reports that
    arrive meanwhile count for the next one.
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
