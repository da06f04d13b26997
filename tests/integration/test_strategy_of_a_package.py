"""A strategy of another package decides in a live cluster; a broker without the package is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_barycenter.standalone.errors import ProcessFailedError
from pulsar_barycenter.testing import AsyncCluster
from support.running_cluster import eventually
from support.stock_client import connect
from support.strategy_package import NAME, install

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster for tests")]

CONFIG = {
    "loadBalancerLoadSheddingStrategy": NAME,
    "barycenterStrategySettings": '{"AcmeShedder": {"gap": 0}}',
    "loadBalancerSheddingIntervalMinutes": 0.05,
    "loadBalancerSheddingGracePeriodMinutes": 0,
    "loadBalancerAutoBundleSplitEnabled": False,
}


async def test_it_moves_bundles_and_every_broker_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = install(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(packages), prepend=os.pathsep)
    async with AsyncCluster(3, CONFIG) as cluster:
        await cluster.create_namespace("public/orders", bundles=8)
        client = connect(cluster.service_url)
        try:
            producers = [client.create_producer(f"persistent://public/orders/t{number}") for number in range(24)]

            async def has_moved() -> bool:
                for producer in producers:
                    producer.send_async(b"load", lambda _result, _message: None)
                page = await cluster.admin("GET", "/barycenter/v1/decision-log?of=cluster")
                return any(record["reason"]["code"] == "moves_by_strategy" for record in page["decisions"])

            await eventually(has_moved, within_s=120, what=f"{NAME} moves a bundle")
        finally:
            client.close()

        monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].removeprefix(str(packages)).lstrip(os.pathsep))
        with pytest.raises(ProcessFailedError, match=r"AcmeShedder' is not a strategy known here.*needs that package"):
            await cluster.restart(2)
        monkeypatch.setenv("PYTHONPATH", str(packages), prepend=os.pathsep)
        await cluster.restart(2)


def test_the_command_line_names_it(tmp_path: Path) -> None:
    packages = install(tmp_path / "packages")
    root = Path(__file__).parents[2]
    example = next((root / "docs" / "examples").rglob("*.json"))
    command = [sys.executable, "-m", "pulsar_barycenter", "decide", "--snapshot", str(example), "--strategy", NAME]
    done = subprocess.run(command, env={"PYTHONPATH": str(packages)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert NAME in done.stdout
