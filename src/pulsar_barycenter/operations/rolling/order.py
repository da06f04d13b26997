"""Decides the order of a roll from a reading of the cluster, and the moves that the roll would make; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.executor import RefusedError
from pulsar_barycenter.operations.rolling.plan import (
    MAX_BROKERS,
    Cluster,
    RollPlan,
    best_plan,
    forecast,
    naive_moves,
    second_pool,
)
from pulsar_barycenter.operations.rolling.progress import RollOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of an operator for a roll: which brokers restart (`only`; empty: all), how many at a time (`batch`),
    and the names of the brokers of a second pool (`pool`; empty: none). `canary` brokers restart first.
    """

    only: tuple[str, ...] = ()
    batch: int = 1
    pool: tuple[str, ...] = ()
    refills: bool = True
    canary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ordered:
    """`order` is the order of a roll, `plan` has the planned moves in this order. For comparison, `naive` is the number
    of moves if the brokers restarted in the order of their names.
    """

    order: RollOrder
    plan: RollPlan
    naive: int


def restarting(listed: Sequence[str], wanted: Wanted) -> tuple[str, ...]:
    """Return those of `listed`, the registered brokers, that a roll restarts; with a second pool, the old brokers,
    which the roll ends.

    Raises:
        RefusedError: the options do not fit the cluster.
    """
    if len(listed) > MAX_BROKERS:
        raise RefusedError(
            f"the cluster has {count_of(len(listed), 'broker')}, and a roll can be planned for at most {MAX_BROKERS:,}"
        )
    for broker in wanted.only:
        if broker not in listed:
            raise RefusedError(f"there is no broker {broker} in the cluster; the brokers are {', '.join(listed)}")
    brokers = tuple(name for name in dict.fromkeys(wanted.only or listed) if name not in wanted.pool)
    if not brokers:
        raise RefusedError(
            "all brokers to replace are in --second-pool, so no broker would be replaced; name only the new brokers"
            " in --second-pool"
        )
    if wanted.pool and wanted.canary:
        raise RefusedError(
            "canary brokers and a second pool cannot be combined: roll without --canary, and stop the command after"
            " the first broker to check it"
        )
    if wanted.pool and wanted.batch > 1:
        raise RefusedError("a second pool replaces one broker at a time; leave --batch out")
    others = [name for name in listed if name not in brokers]
    if not wanted.pool and wanted.batch > len(brokers) - (not others):
        raise RefusedError(
            f"of {count_of(len(listed), 'broker')}, {wanted.batch:,} cannot restart at once: either no broker would"
            " stay in service, or the roll has fewer brokers to restart; give a smaller --batch"
        )
    return brokers


def ordered(name: str, listed: Sequence[str], leader: str, cluster: Cluster, wanted: Wanted) -> Ordered:
    """Return the order and the planned moves of a roll of the cluster `name`. `listed` are its registered brokers,
    `leader` is restarted last, `wanted` has the options of the operator. Raises the errors of `restarting`, and
    RefusedError if none of the canary brokers can restart first.
    """
    brokers = restarting(listed, wanted)
    ready = tuple(broker for broker in listed if broker not in (*brokers, *wanted.pool))
    naive = naive_moves(cluster.owners, listed)
    if wanted.pool:
        old = tuple(sorted(brokers, key=lambda broker: (broker == leader, broker)))
        batches = tuple((broker,) for broker in old)
        order = RollOrder(cluster=name, batches=batches, ready=(), pool=wanted.pool, refills=False)
        return Ordered(order, second_pool(cluster, old, wanted.pool), naive)
    canary = tuple(broker for broker in wanted.canary if broker in brokers and broker != leader)
    if wanted.canary and not canary:
        raise RefusedError(
            f"of the canary brokers {', '.join(wanted.canary)} none can restart first: each is the leader, which"
            " restarts last, or is a broker that this roll does not restart; choose another policy with --canary"
        )
    plan = _plan(cluster, brokers, leader, canary, ready, wanted)
    order = RollOrder(
        cluster=name,
        batches=tuple(step.brokers for step in plan.steps),
        ready=ready,
        refills=wanted.refills,
        canary=canary,
    )
    return Ordered(order, plan, naive)


def _plan(
    cluster: Cluster,
    brokers: Sequence[str],
    leader: str,
    canary: Sequence[str],
    ready: Sequence[str],
    wanted: Wanted,
) -> RollPlan:
    """Return the best plan for the roll. If there are canary brokers, it is the best plan for these, followed by the
    best plan for the others. `ready` are the brokers that need no restart and receive bundles first.
    """
    if not canary:
        return best_plan(cluster, brokers, leader, batch=wanted.batch, restarted=ready, refills=wanted.refills)
    first = best_plan(cluster, canary, leader, batch=wanted.batch, restarted=ready, refills=False)
    others = [broker for broker in brokers if broker not in canary]
    then = best_plan(cluster, others, leader, batch=wanted.batch, restarted=(*ready, *canary), refills=False)
    batches = tuple(step.brokers for step in (*first.steps, *then.steps))
    return forecast(cluster, batches, restarted=ready, refills=wanted.refills)


def backwards_plan(order: RollOrder, cluster: Cluster) -> RollPlan:
    """Return the planned moves of a roll back; `order` is the order that `progress.backwards` returned."""
    if order.pool:
        return second_pool(cluster, order.brokers, (*order.ready, *order.pool))
    return forecast(cluster, order.batches, restarted=order.ready, refills=order.refills)
