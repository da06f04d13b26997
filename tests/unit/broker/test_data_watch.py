"""A broker that has lost its data reports it, leaves service and requests its end; it survives a read-only disk."""

import asyncio

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.data_watch import DataWatch
from pulsar_barycenter.metadata.files.data_faults import DataFault
from support.rest_cluster import RestCluster

LOST = DataFault("/data/ledgers is missing: it was removed", is_final=True)
READ_ONLY = DataFault("/data is on a file system that is read-only", is_final=False)


class Part:
    """A part of the data; `fault` is what a look at it finds."""

    def __init__(self) -> None:
        self.fault: DataFault | None = None
        self.looks = 0

    def __call__(self) -> DataFault | None:
        self.looks += 1
        return self.fault


async def test_a_final_fault_is_told_once_and_stays() -> None:
    parts, reasons = [Part(), Part()], list[str]()
    watch = DataWatch(parts, reasons.append)
    await watch.look()
    assert (watch.fault, reasons) == ("", [])
    parts[0].fault, parts[1].fault = READ_ONLY, LOST
    with capture_logs() as events:
        await watch.look()
        parts[1].fault = None
        await watch.look()
    assert watch.fault == LOST.text
    assert reasons == [LOST.text]
    assert [(event["event"], event["reason"]) for event in events] == [("data_lost", LOST.text)]


async def test_a_fault_that_may_end_is_told_once_ends_nothing_and_is_over() -> None:
    part, reasons = Part(), list[str]()
    watch = DataWatch([part], reasons.append)
    part.fault = READ_ONLY
    with capture_logs() as events:
        await watch.look()
        await watch.look()
        assert watch.fault == READ_ONLY.text
        part.fault = None
        await watch.look()
    assert (watch.fault, reasons) == ("", [])
    assert [event["event"] for event in events] == ["data_not_writable", "data_usable_again"]


async def found(cluster: RestCluster, broker: Broker) -> None:
    async with asyncio.timeout(30):
        while not broker.data_fault:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("fault", [LOST, READ_ONLY])
async def test_health_readiness_and_rotation_say_what_is_wrong(fault: DataFault) -> None:
    part, cluster = Part(), RestCluster()
    try:
        broker = await cluster.add(data_checks=[part], broker_shutdown_timeout_ms=0)
        for path in ("/admin/v2/brokers/health", "/admin/v2/brokers/ready", "/status.html"):
            await cluster.expect(200, "GET", path)
        part.fault = fault
        await found(cluster, broker)
        for path in ("/admin/v2/brokers/health", "/admin/v2/brokers/ready"):
            refused = await cluster.expect(500, "GET", path)
            assert fault.text in refused.reason
        await cluster.expect(404, "GET", "/status.html")
        assert not broker.ready
    finally:
        await cluster.close()
