"""Who owns a topic, where brokers serve it that the cluster for tests did not start."""

from typing import Any

import pytest

from pulsar_barycenter.testing import AsyncCluster, TestClusterError


async def test_an_owner_that_the_cluster_did_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers(self: AsyncCluster, method: str, path: str, **_: Any) -> dict[str, str]:
        return {"brokerUrl": "pulsar://127.0.0.1:1"}

    monkeypatch.setattr(AsyncCluster, "admin", answers)
    with pytest.raises(TestClusterError, match=r"owned by pulsar://127.0.0.1:1, a broker that this cluster did not"):
        await AsyncCluster().owner("orders")
