"""A client for Java reads the policies of our topics from `__change_events`, by Pulsar's own class of the messages."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.admin_tool import VERSIONS, run_source
from support.maven import PeerUnavailableError
from support.running_cluster import running_cluster

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.full_form,
    pytest.mark.xdist_group("apache pulsar"),
]

SOURCE = Path(__file__).parents[1] / "support" / "java" / "PolicyEvents.java"
EVENTS = "persistent://public/default/__change_events"
ROOT = "/admin/v2/persistent/public/default"
NAME = "persistent://public/default"
DISPATCH = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}
POLICIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "maxProducers": (7, {"maxProducerPerTopic": 7}),
    "deduplicationSnapshotInterval": (9, {"deduplicationSnapshotIntervalSeconds": 9}),
    "dispatchRate": (DISPATCH, {"dispatchRate": DISPATCH}),
    "retention": (
        {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
        {"retentionPolicies": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}},
    ),
}
"""Each policy by its path: the body that sets it, and its fields in Pulsar's class."""
DEADLINE_S = 240


async def read(version: str, service_url: str) -> dict[str, tuple[str, Any]]:
    """Return the action and the policies of the last message of each topic, as the client of a version reads them."""
    try:
        printed = await run_source(version, SOURCE, service_url, EVENTS, within_s=DEADLINE_S)
    except PeerUnavailableError as error:
        pytest.fail(str(error))
    lines = [line.split("\t") for line in printed.splitlines() if line.startswith("event\t")]
    return {key: (action, msgspec.json.decode(policies)) for _, key, action, policies in lines}


async def test_pulsars_class_of_the_messages_has_the_policies_that_were_set(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=1) as (cluster, admin):
        for topic in ("kept", "removed"):
            await admin.expect(204, "PUT", f"{ROOT}/{topic}")
            await admin.expect(204, "POST", f"{ROOT}/{topic}/maxProducers", json=7)
        for path, (body, _) in POLICIES.items():
            await admin.expect(204, "POST", f"{ROOT}/kept/{path}", json=body)
        await admin.expect(204, "DELETE", f"{ROOT}/removed/maxProducers")
        for version in VERSIONS:
            found = await read(version, cluster.brokers[0].service_url)
            action, policies = found[f"{NAME}/kept"]
            assert action == "UPDATE", version
            for _, expected in POLICIES.values():
                assert expected.items() <= policies.items(), version
            unset = ("publishRate", "messageTTLInSeconds", "maxConsumerPerTopic", "persistence")
            assert not policies.keys() & set(unset), version
            assert found[f"{NAME}/removed"] == ("", None), version
