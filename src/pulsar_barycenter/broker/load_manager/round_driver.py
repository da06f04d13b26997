"""A round of shedding carried out: each step of `load.rounds.round.moves`, awaited one after the other.

Needs numpy; only a leader imports it.
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
    may_go_on: Callable[[], bool],
    stays: Callable[[Refusal], None] = lambda _refusal: None,
) -> list[Unload]:
    """Have every bundle unloaded by `unload`, and every refusal told, to `stays`, too; return what was unloaded.

    `may_go_on` is asked before each step: a broker that leads no longer stops where it is. Others go on after each,
    a refusal, too; what is reported meanwhile counts from the next unload on.
    """
    unloaded = []
    try:
        step = next(steps)
        while may_go_on():
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
