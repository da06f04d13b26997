"""Bundles of a few brokers: their owners, their records, and how they are unloaded and split."""

import asyncio
from typing import Any

import msgspec

from pulsar_barycenter.broker.ownership.record import OwnershipRecord, lock_path
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, topic


async def three(cluster: ControlCluster, bundles: int = 1) -> list[ControlBroker]:
    await cluster.create_namespace(bundles)
    return [await cluster.add(port) for port in (8081, 8082, 8083)]


async def owner_of(cluster: ControlCluster, name: str = "t") -> ControlBroker:
    return cluster.brokers[(await cluster.follow(topic(name), next(iter(cluster.brokers.values())))).broker_id]


async def record_of(cluster: ControlCluster, bundle: Bundle) -> OwnershipRecord | None:
    stored = await cluster.admin.get(lock_path(bundle))
    return None if stored is None else msgspec.json.decode(stored.value, type=OwnershipRecord)


def unload(broker: ControlBroker, bundle: Bundle) -> "asyncio.Future[int | None]":
    return asyncio.ensure_future(broker.run(broker.plane.namespaces.unload_bundle(bundle)))


def split(broker: ControlBroker, bundle: Bundle, **options: Any) -> "asyncio.Future[list[Bundle]]":
    algorithm = options.pop("algorithm", "range_equally_divide")
    work = broker.plane.namespaces.split_bundle(bundle, algorithm=algorithm, **options)
    return asyncio.ensure_future(broker.run(work))
