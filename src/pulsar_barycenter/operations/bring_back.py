"""Finds the bundles that left a drained broker and may return, from the cluster's decisions and present owners."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.cluster_logs.decision_pages import DecisionQuestion
from pulsar_barycenter.cluster_logs.record_pages import MAX_RECORDS_ON_PAGE, parse_cursor
from pulsar_barycenter.observer.running_cluster import decision_page
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import when_told
from pulsar_barycenter.operations.plan import MOST_MOVES, PlannedMove

WITHIN_S: Final = 30.0
"""The time limit for querying all brokers for the bundles they serve; after it, TimeoutError is raised."""
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class WayBack:
    """The moves that end a drain: `moves` return bundles to the broker. `stay` maps each other bundle that left the
    broker to the reason why it does not return. `drained_at` is when the last drain began (epoch ms); None if no
    decision records a drain, and then there are no moves.
    """

    drained_at: int | None = None
    moves: tuple[PlannedMove, ...] = ()
    stay: Mapping[str, str] | None = None


async def way_back(new_client: NewClient, url: str, broker: str) -> WayBack:
    """Return the moves that bring bundles back to a broker: those that operators moved away from it since its last
    drain began.

    Raises:
        NotNowError, RefusedError, TimeoutError, ClusterError: the cluster does not return the data.
    """
    drains = await decision_page(new_client, url, DecisionQuestion(broker=broker, kind="drain", limit=1))
    if not drains.decisions:
        return WayBack()
    begun = drains.decisions[-1].at
    left = await _left(
        new_client, url, DecisionQuestion(broker=broker, kind="unload", since_ms=begun, limit=MAX_RECORDS_ON_PAGE)
    )
    moves, stay = back(broker, left, await owned_by_brokers(new_client, url))
    return WayBack(begun, moves, stay)


async def _left(new_client: NewClient, url: str, question: DecisionQuestion) -> list[DecisionRecord]:
    """Return the newest decisions that `question` selects in the brokers' decision logs, oldest first: at least
    MOST_MOVES, if there are so many.
    """
    found: list[DecisionRecord] = []
    while len(found) < MOST_MOVES:
        page = await decision_page(new_client, url, question)
        found = page.decisions + found
        if not page.next:
            break
        question = replace(question, before=parse_cursor(page.next))
    return found


def back(
    broker: str, decisions: Collection[DecisionRecord], owned: Mapping[str, frozenset[str]]
) -> tuple[tuple[PlannedMove, ...], dict[str, str]]:
    """Return two things about the bundles that operators moved away from `broker`: the moves that bring bundles back to
    it, sorted by bundle; and for each bundle that does not return, the reason.

    `decisions` are the unloads since the drain began, oldest first; `owned` are the bundles that each broker serves. A
    bundle that `broker` serves again is in neither result. A bundle that has moved to a third broker since the
    operator's move does not return. A bundle without an owner does not return either: it was split, or it gets an owner
    with the next look-up.
    """
    owners = {bundle: owner for owner, bundles in owned.items() for bundle in bundles}
    sent = {
        decision.bundle: decision.destination
        for decision in decisions
        if decision.principal and decision.source == broker
    }
    moves, stay = [], {}
    for bundle, destination in sorted(sent.items()):
        owner = owners.get(bundle, "")
        if owner == broker:
            continue
        if not owner:
            stay[bundle] = "it has no owner now: it was split, or gets an owner with the next look-up"
        elif destination and owner != destination:
            stay[bundle] = f"it moved to {destination}, and {owner} serves it now"
        else:
            sentence = f"back to the broker that had it before the drain of {broker}"
            moves.append(PlannedMove(bundle=bundle, source=owner, destination=broker, sentence=sentence))
    return tuple(moves), stay


async def owned_by_brokers(new_client: NewClient, url: str) -> dict[str, frozenset[str]]:
    """Return the bundles that each registered broker serves.

    Raises:
        NotNowError, RefusedError, TimeoutError: a broker does not return them.
    """
    client = new_client()
    cluster = AdminCluster(client, url)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def owned(broker: str) -> frozenset[str]:
        async with gate:
            return await when_told(lambda: cluster.owned(broker))

    try:
        async with asyncio.timeout(WITHIN_S):
            brokers = await cluster.brokers()  # first, so that a wrong address is reported at once
            return dict(zip(brokers, await asyncio.gather(*map(owned, brokers)), strict=True))
    finally:
        await client.close()
