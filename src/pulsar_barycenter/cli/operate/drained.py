"""What `drain` and `undrain` ask a cluster, and how they change who is drained."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from pulsar_barycenter.cli.ask.running_cluster import snapshot_of
from pulsar_barycenter.cli.operate.carrying_out import open_cluster
from pulsar_barycenter.load.cycle.told_rounds import placement_lines
from pulsar_barycenter.load.policies import DRAINED_KEY, IsolationPolicies, drained_text
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.draining import parsed, spread, to_move
from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.snapshots.decided_by import configured, manager_of
from pulsar_barycenter.snapshots.snapshot_file import of_document

_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Drained:
    """`drained` is None if the cluster cannot keep brokers empty. `moves` would empty the broker; `stay` says why other
    bundles of it cannot leave; `cluster` is its name."""

    brokers: tuple[str, ...]
    drained: tuple[str, ...] | None
    moves: tuple[PlannedMove, ...] = ()
    stay: Mapping[str, str] | None = None
    cluster: str = ""


async def who_is_drained(url: str) -> Drained:
    """Return the brokers, and which are drained.

    Raises:
        NotNowError, RefusedError, TimeoutError: the cluster does not tell.
    """
    client, cluster = open_cluster(url)
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await _asked(cluster)
    finally:
        await client.close()


async def to_drain(url: str, broker: str) -> Drained:
    """Return the same with the moves that empty a broker.

    Raises:
        NotNowError, RefusedError, TimeoutError: the cluster does not tell, or the broker cannot be emptied.
        ClusterError, SnapshotFileError, StrategyError, ConfigError: the leader does not say where bundles would go.
    """
    client, cluster = open_cluster(url)
    try:
        async with asyncio.timeout(_WITHIN_S):
            found = await _asked(cluster)
            if broker not in found.brokers:
                return found
            others = set(found.brokers) - {broker, *(found.drained or ())}
            if not others:
                raise RefusedError(
                    f"nobody could take the bundles of {broker}: there is no other broker that is not drained"
                )
            bundles = to_move(await when_told(partial(cluster.owned, broker)))
            if found.drained is None:
                isolation, _ = IsolationPolicies.decode(await when_told(cluster.isolation))
                counts = {name: len(await when_told(partial(cluster.owned, name))) for name in found.brokers}
                moves, stay = spread(broker, bundles, counts, isolation)
            else:
                moves, stay = await _placed(url, broker, bundles, (*found.drained, broker))
    finally:
        await client.close()
    return replace(found, moves=tuple(moves), stay=stay)


async def set_drained(url: str, broker: str, *, is_drained: bool, why: str = "") -> None:
    """Have a broker be drained, or be so no more; done when all brokers know.

    Others that are drained stay so, also those whom somebody else drains at the same time.

    Raises:
        NotNowError, RefusedError, TimeoutError: it cannot be set, or is not in force everywhere.
    """
    client, cluster = open_cluster(url, why)

    async def change() -> None:
        text = (await cluster.settings())[DRAINED_KEY]
        others = [name for name in parsed(text) if name != broker]
        after = [*others, broker] if is_drained else others
        if after != list(parsed(text)):
            await cluster.set_dynamic(DRAINED_KEY, drained_text(after), expected=text)

    async def know(name: str) -> None:
        known = parsed((await cluster.settings(name))[DRAINED_KEY])
        if (broker in known) is not is_drained:
            raise NotNowError(f"{name} does not know yet")

    try:
        async with asyncio.timeout(_WITHIN_S):
            await when_told(change)
            for name in await when_told(cluster.brokers):
                await when_told(partial(know, name))
    finally:
        await client.close()


async def _asked(cluster: AdminCluster) -> Drained:
    settings = await cluster.settings()  # an address where nobody is, is told at once
    drained = parsed(settings[DRAINED_KEY]) if DRAINED_KEY in settings else None
    return Drained(tuple(await when_told(cluster.brokers)), drained, cluster=settings.get("clusterName", ""))


async def _placed(
    url: str, broker: str, bundles: list[str], drained: tuple[str, ...]
) -> tuple[list[PlannedMove], dict[str, str]]:
    """Return where the leader would place the bundles of a broker that is drained, one counting for the next."""
    found = of_document(await snapshot_of(url), Path(url))
    config = configured(found, changes=[f"{DRAINED_KEY}={drained_text(drained)}"])
    moves, stay = [], {}
    for line in placement_lines(found.snapshot, config, bundles, 0, manager_of(found, None)):
        if line.destination in ("", broker):
            stay[line.bundle] = line.sentence
        else:
            moves.append(
                PlannedMove(bundle=line.bundle, source=broker, destination=line.destination, sentence=line.sentence)
            )
    return moves, stay
