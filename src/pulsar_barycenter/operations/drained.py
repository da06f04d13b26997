"""Reads which brokers of a cluster are drained, and changes it, for `drain` and `undrain`."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.load.policies import DRAINED_KEY, IsolationPolicies, drained_names, drained_text
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, loads_of, owned_bundles
from pulsar_barycenter.observer.running_cluster import snapshot_of
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.draining import spread, to_move
from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.snapshots.decided_by import configured, manager_of

_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLoad:
    """The load of a broker: `bundles` is the number of bundles that the broker says it serves, without its own
    heartbeat and SLA-monitor bundles. `msg_rate` (msg/s) and `msg_throughput` (bytes/s) are in + out, from the newest
    reports; None if not known.
    """

    bundles: int = 0
    msg_rate: float | None = None
    msg_throughput: float | None = None

    def with_more(self, bundles: int, msg_rate: float, msg_throughput: float) -> "CarriedLoad":
        return CarriedLoad(
            bundles=self.bundles + bundles,
            msg_rate=None if self.msg_rate is None else _bounded(self.msg_rate + msg_rate),
            msg_throughput=None if self.msg_throughput is None else _bounded(self.msg_throughput + msg_throughput),
        )


def _bounded(figure: float) -> float:
    """Return `figure`, the result of a subtraction of loads, rounded to three decimal places; 0 if it is negative,
    which only a rounding error can cause.
    """
    return max(0.0, round(figure, 3))


@dataclass(frozen=True, slots=True)
class Drained:
    """The brokers of a cluster, those of them that are drained, and the moves that would empty one broker.

    `drained` is None if the brokers are of a kind that cannot be marked as drained. `moves` would empty the broker;
    `stay` maps each bundle that cannot leave the broker to the reason. `cluster` is the name of the cluster. `loads`
    has for each broker its present load, and its expected load after the moves.
    """

    brokers: tuple[str, ...]
    drained: tuple[str, ...] | None
    moves: tuple[PlannedMove, ...] = ()
    stay: Mapping[str, str] | None = None
    cluster: str = ""
    loads: Mapping[str, tuple[CarriedLoad, CarriedLoad]] = field(default_factory=dict)


async def who_is_drained(new_client: NewClient, url: str) -> Drained:
    """Return the brokers of a cluster, and those of them that are drained.

    Raises:
        NotNowError, RefusedError, TimeoutError: the cluster does not return them.
    """
    client = new_client()
    cluster = AdminCluster(client, url)
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await _asked(cluster)
    finally:
        await client.close()


async def to_drain(new_client: NewClient, url: str, broker: str) -> Drained:
    """Return the brokers, those that are drained, and the moves that empty `broker`. If `broker` is not registered, the
    result has no moves.

    Raises:
        NotNowError, RefusedError, TimeoutError: the cluster does not answer, or the broker cannot be drained.
        ClusterError, SnapshotFileError, StrategyError, ConfigError: the destinations of the bundles cannot be
            determined.
    """
    client = new_client()
    cluster = AdminCluster(client, url)
    try:
        async with asyncio.timeout(_WITHIN_S):
            found = await _asked(cluster)
            if broker not in found.brokers:
                return found
            others = set(found.brokers) - {broker, *(found.drained or ())}
            if not others:
                raise RefusedError(
                    f"no broker can take the bundles of {broker}: every other broker is drained, or there is no other"
                    " broker; start another broker, or undrain one of the drained brokers"
                )
            bundles = to_move(await when_told(partial(cluster.owned, broker)))
            if found.drained is None:
                isolation, _ = IsolationPolicies.decode(await when_told(cluster.isolation))
                counts = {name: len(await when_told(partial(cluster.owned, name))) for name in found.brokers}
                moves, stay = spread(broker, bundles, counts, isolation)
                loads = {name: CarriedLoad() for name in counts}
                of_bundles: Mapping[str, tuple[float, float]] = {}
            else:
                counts = {name: len(to_move(await when_told(partial(cluster.owned, name)))) for name in found.brokers}
                moves, stay, loads, of_bundles = await _placed(
                    new_client, url, broker, bundles, (*found.drained, broker)
                )
    finally:
        await client.close()
    carried = {name: replace(loads.get(name, CarriedLoad()), bundles=count) for name, count in counts.items()}
    return replace(found, moves=tuple(moves), stay=stay, loads=before_and_after(carried, moves, of_bundles))


def before_and_after(
    loads: Mapping[str, CarriedLoad], moves: Iterable[PlannedMove], of_bundles: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[CarriedLoad, CarriedLoad]]:
    """Return the load of each broker before and after moves.

    `of_bundles` maps bundles to rate (msg/s) and throughput (bytes/s); a bundle that is not in it counts as having no
    load.
    """
    after = dict(loads)
    for move in moves:
        rate, throughput = of_bundles.get(move.bundle, (0.0, 0.0))
        for broker, sign in ((move.source, -1), (move.destination, 1)):
            if broker in after:
                after[broker] = after[broker].with_more(sign, sign * rate, sign * throughput)
    return {broker: (load, after[broker]) for broker, load in sorted(loads.items())}


async def set_drained(new_client: NewClient, url: str, broker: str, *, is_drained: bool, why: str = "") -> None:
    """Mark a broker as drained, or as not drained if `is_drained` is False, and wait until all brokers use the new
    value.

    Other drained brokers stay drained, also those that another operator drains at the same time. `why` is the reason,
    which brokers store with the change.

    Raises:
        NotNowError, RefusedError, TimeoutError: the value cannot be set, or is not in force on every broker.
    """
    client = new_client(why=why)
    cluster = AdminCluster(client, url)

    async def change() -> None:
        text = (await cluster.settings())[DRAINED_KEY]
        others = [name for name in drained_names(text) if name != broker]
        after = [*others, broker] if is_drained else others
        if after != list(drained_names(text)):
            await cluster.set_dynamic(DRAINED_KEY, drained_text(after), expected=text)

    async def know(name: str) -> None:
        known = drained_names((await cluster.settings(name))[DRAINED_KEY])
        if (broker in known) is not is_drained:
            raise NotNowError(f"{name} still uses the previous list of drained brokers; wait and try again")

    try:
        async with asyncio.timeout(_WITHIN_S):
            await when_told(change)
            for name in await when_told(cluster.brokers):
                await when_told(partial(know, name))
    finally:
        await client.close()


async def _asked(cluster: AdminCluster) -> Drained:
    settings = await cluster.settings()  # without a repetition, so that a wrong address is reported at once
    drained = drained_names(settings[DRAINED_KEY]) if DRAINED_KEY in settings else None
    return Drained(tuple(await when_told(cluster.brokers)), drained, cluster=settings.get("clusterName", ""))


_Placed: TypeAlias = tuple[list[PlannedMove], dict[str, str], dict[str, CarriedLoad], Mapping[str, tuple[float, float]]]


async def _placed(
    new_client: NewClient, url: str, broker: str, bundles: list[str], drained: tuple[str, ...]
) -> _Placed:
    """Return three things about the bundles of a drained broker: the moves to the brokers that the leader would choose;
    for each bundle that stays, the reason; and the loads of brokers and bundles.

    Each choice takes the choices before it into account. `drained` are all drained brokers, including `broker`.
    """
    # these bring numpy, which `undrain` does without
    from pulsar_barycenter.load.rounds.snapshot_rounds import placement_lines
    from pulsar_barycenter.snapshots.snapshot_file import of_document

    document = await snapshot_of(new_client, url)
    found = of_document(document, Path(url))
    config = configured(found, changes=[f"{DRAINED_KEY}={drained_text(drained)}"])
    moves, stay = [], {}
    for line in placement_lines(found.snapshot, config, bundles, 0, manager_of(found, None)):
        if line.destination in ("", broker):
            stay[line.bundle] = line.sentence
        else:
            moves.append(
                PlannedMove(bundle=line.bundle, source=broker, destination=line.destination, sentence=line.sentence)
            )
    return moves, stay, *_carried(document)


def _carried(document: SnapshotDocument) -> tuple[dict[str, CarriedLoad], dict[str, tuple[float, float]]]:
    """Return the load of each broker; and for each bundle its rate (msg/s) and throughput (bytes/s), in + out. All are
    from the newest reports in the snapshot `document`.
    """
    of_bundles: dict[str, tuple[float, float]] = {}
    for _, bundle, stats in owned_bundles(document):
        if stats is not None:
            rate, throughput = (
                stats.msg_rate_in + stats.msg_rate_out,
                stats.msg_throughput_in + stats.msg_throughput_out,
            )
            of_bundles[bundle] = rate, throughput
    loads = {
        name: CarriedLoad(
            msg_rate=report.msg_rate_in + report.msg_rate_out,
            msg_throughput=report.msg_throughput_in + report.msg_throughput_out,
        )
        for name, report in loads_of(document).items()
    }
    return loads, of_bundles
