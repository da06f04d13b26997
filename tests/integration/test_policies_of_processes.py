"""An isolation policy among real broker processes: it holds at once, and its secondary brokers take over."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.running_cluster import eventually, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

POLICY = "/admin/v2/clusters/standalone/namespaceIsolationPolicies/p"
TOPICS = [f"persistent://public/isolated/topic-{number}" for number in range(16)]


async def test_a_policy_holds_from_its_setting_on_and_fails_over_when_its_primary_broker_is_killed(
    tmp_path: Path,
) -> None:
    """Policies are set at one broker and topics looked up at another at once, in turn for each primary broker."""
    async with running_cluster(tmp_path) as (cluster, admin):
        await admin.create_namespace("public/isolated", 8)
        first, second, third = (process.web_url for process in cluster.brokers)

        async def owners(asked: int) -> set[str]:
            return {(await admin.owner(topic, broker=asked)).web_url for topic in TOPICS}

        async def owned_by(broker: str) -> bool:
            try:
                return await owners(0) == {broker}
            except (AssertionError, aiohttp.ClientError):
                return False  # a redirect led to the broker that was killed, as long as it counts as the leader

        for turn, primary in enumerate((first, second, third, second)):
            policy = isolated(primary, secondary=third)
            await admin.expect(204, "POST", POLICY, broker=(turn + 1) % 3, json=policy)
            assert await owners(turn % 3) == {primary}
        await cluster.kill_broker(cluster.brokers[1])
        await eventually(lambda: owned_by(third), within_s=20, what="the secondary broker serves")


def isolated(primary: str, *, secondary: str) -> dict[str, Any]:
    """Return a policy for one broker, and another for when it is gone; both by their web URLs."""
    return {
        "namespaces": ["public/iso.*"],
        "primary": [exactly(primary)],
        "secondary": [exactly(secondary)],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }


def exactly(web_url: str) -> str:
    return rf"\Q{web_url.removeprefix('http://')}\E"
