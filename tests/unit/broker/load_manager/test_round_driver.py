"""A round carried out step by step, while other tasks run."""

import asyncio
from collections.abc import Generator
from typing import Any

from pulsar_barycenter.broker.load_manager.round_driver import carry_out_round
from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.rounds.round import RoundOutcome, UnloadOutcome
from support.control_cluster import on_virtual_time

WHY = Reason(code=Code.ABOVE_LIMIT)


class RefusalLog:
    """Receives and records refusals."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def refuse(self, action: str, subject: str, source: str, reason: Reason) -> None:
        self.refused.append(subject)


def steps_of(*steps: Unload | Refusal) -> Generator[Unload | Refusal, UnloadOutcome | None, RoundOutcome]:
    answers = []
    for step in steps:
        answers.append((yield step))
        assert (answers[-1] is None) is isinstance(step, Refusal)
    return RoundOutcome(*([()] * 5))  # type: ignore[arg-type]


def refused(*bundles: str) -> list[Refusal]:
    return [Refusal("unload", bundle, WHY, "a:1") for bundle in bundles]


def test_a_broker_that_lost_the_lead_between_two_refusals_stops_there() -> None:
    async def scenario(_: Any) -> None:
        told, leads, unloaded = RefusalLog(), True, []

        async def unload(step: Unload) -> UnloadOutcome:
            unloaded.append(step.bundle)
            return UnloadOutcome(True)

        async def lose_it_after_two() -> None:
            nonlocal leads
            while len(told.refused) < 2:
                await asyncio.sleep(0)
            leads = False

        losing = asyncio.create_task(lose_it_after_two())
        steps = steps_of(Unload("0", "a:1", WHY), *refused("1", "2", "3", "4"), Unload("5", "a:1", WHY))
        out = await carry_out_round(steps, told, unload, may_continue=lambda: leads)  # type: ignore[arg-type]
        await losing
        assert [each.bundle for each in out] == unloaded == ["0"]
        assert told.refused == ["1", "2"]

    on_virtual_time(scenario)


def test_a_round_to_its_end_tells_every_refusal_and_returns_what_went_out() -> None:
    async def scenario(_: Any) -> None:
        told, stays = RefusalLog(), []

        async def unload(step: Unload) -> UnloadOutcome:
            return UnloadOutcome(step.bundle != "2")

        steps = steps_of(*refused("0"), Unload("1", "a:1", WHY), Unload("2", "a:1", WHY), *refused("3"))
        out = await carry_out_round(
            steps,
            told,  # type: ignore[arg-type]
            unload,
            may_continue=lambda: True,
            stays=lambda refusal: stays.append(refusal.subject),
        )
        assert [each.bundle for each in out] == ["1"]
        assert told.refused == stays == ["0", "3"]

    on_virtual_time(scenario)
