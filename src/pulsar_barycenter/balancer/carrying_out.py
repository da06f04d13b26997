"""Carries out the moves and splits of a round with the executors of `operations`, and keeps the journals."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.balancer.options import Caps
from pulsar_barycenter.balancer.state_folder import StateFolder
from pulsar_barycenter.operations.executor import Cluster, Outcome, Pace, execute
from pulsar_barycenter.operations.journal import Entry, MoveState
from pulsar_barycenter.operations.plan import PlannedMove, plan_of
from pulsar_barycenter.operations.splitting import (
    PlannedSplit,
    SplitEntry,
    SplitState,
    SplittableCluster,
    carry_out_split,
)

BY: Final = "barycenter balance"
_MAX_REASON: Final = 400
"""The number of characters of a reason that brokers store with a move."""


class TellMove(Protocol):
    """A function that is called each time a move enters a new `state`, with a text about that state (`detail`).
    `took_s` is the duration of the move in seconds if the move ended with this state, otherwise None.
    """

    def __call__(self, move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carries out moves in `cluster`. `caps` limits how many moves run at once, how many begin per minute, and how long
    a move may take. Before each move `stop` is called: it returns why no further move may begin; blank if moves may
    begin.

    While moves are carried out, `reasons` maps the bundle of each move to the reason for the move; `cluster` sends this
    reason to the broker.
    """

    cluster: Cluster
    state: StateFolder
    caps: Caps
    stop: Callable[[], str]
    tell: TellMove
    reasons: dict[str, str]

    async def carry_out(self, moves: Sequence[PlannedMove], *, by: str = BY) -> Outcome:
        """Carry out moves, and return how they ended. Each move is recorded in the journal before it begins; `by` is
        who asked for the moves.

        No further move begins after a move that failed, or if a bundle is owned neither by the source nor by the
        destination of its move: then something else moves bundles, too. Moves that have begun are carried out to their
        end.

        Raises:
            OSError: the journal cannot be written; no further move begins.
        """
        plan = plan_of(moves)

        def tell(move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
            self.state.note_move(
                Entry(
                    at=time.time_ns() // 1_000_000,
                    plan=plan.name,
                    by=by,
                    bundle=move.bundle,
                    source=move.source,
                    destination=move.destination,
                    state=state,
                    detail=detail,
                    why=move.sentence,
                    took_s=took_s,
                )
            )
            self.tell(move, state, detail, took_s)

        self.reasons.clear()
        self.reasons.update((move.bundle, f"{by}: {move.sentence}"[:_MAX_REASON]) for move in plan.moves)
        pace = Pace(self.caps.at_once, self.caps.per_minute, self.caps.timeout_s)
        return await execute(plan.moves, self.cluster, pace, tell, self.stop)


@dataclass(frozen=True, slots=True)
class SplitCarrier:
    """Splits bundles of `cluster`, one after the other. Before each split `stop` is called: it returns why no further
    split may begin; blank if splits may begin. While bundles are split, `reasons` maps each bundle to the reason for
    its split; `cluster` sends this reason to the broker.
    """

    cluster: SplittableCluster
    state: StateFolder
    caps: Caps
    stop: Callable[[], str]
    tell: Callable[[PlannedSplit, SplitState, str], None]
    reasons: dict[str, str]

    async def carry_out(self, splits: Sequence[PlannedSplit], max_bundles: int) -> tuple[int, int]:
        """Split bundles, one after the other; return how many bundles were split, and how many splits failed. A split
        fails if the namespace already has `max_bundles` bundles or more when the bundle is to be split. A bundle that
        was split or deleted by something else counts neither as split nor as failed. Each split is recorded in the
        journal before it begins.

        Raises:
            OSError: the journal cannot be written; no further split begins.
        """
        states = []
        for split in splits:
            if self.stop():
                break
            self.reasons[split.bundle] = f"{BY}: {split.sentence}"[:_MAX_REASON]

            def tell(state: SplitState, detail: str, split: PlannedSplit = split) -> None:
                self.state.note_split(
                    SplitEntry(
                        at=time.time_ns() // 1_000_000,
                        by=BY,
                        bundle=split.bundle,
                        broker=split.broker,
                        state=state,
                        detail=detail,
                        why=split.sentence,
                    )
                )
                self.tell(split, state, detail)

            states.append(
                await carry_out_split(
                    split.bundle, self.cluster, max_bundles=max_bundles, timeout_s=self.caps.timeout_s, tell=tell
                )
            )
        return states.count(SplitState.SPLIT), states.count(SplitState.FAILED)
