"""The wheel and the source distribution: the same bytes each time, whole, and a cluster that runs from them."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.scripts import load_script

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster for tests")]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pulsar_barycenter"
CLUSTER = """
import pulsar_barycenter
from pulsar_barycenter.testing import Cluster
print(pulsar_barycenter.__file__)
with Cluster() as cluster:
    print(cluster.admin("GET", "/admin/v2/clusters"))
    print(len(cluster.admin("GET", "/dashboard/dashboard.css")) > 0)
"""


def build(target: Path) -> list[Path]:
    module = load_script("build_distributions")
    files: list[Path] = module.build(target)
    return files


def test_distributions_are_reproducible_whole_and_run(tmp_path: Path) -> None:
    wheel, source = build(tmp_path / "first")
    assert [file.read_bytes() for file in build(tmp_path / "second")] == [wheel.read_bytes(), source.read_bytes()]
    committed = subprocess.run(
        ["git", "-C", str(SOURCE), "ls-files"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix("pulsar_barycenter/") for name in archive.namelist()}
        archive.extractall(tmp_path / "installed")
    assert set(committed) <= packed
    with tarfile.open(source) as archive:
        names = {member.partition("/")[2] for member in archive.getnames()}
    assert {f"src/pulsar_barycenter/{name}" for name in committed} <= names
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run(
        [sys.executable, "-c", CLUSTER], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    file, clusters, page = ran.stdout.splitlines()
    assert Path(file).is_relative_to(tmp_path / "installed")
    assert (clusters, page) == ("['standalone']", "True")
