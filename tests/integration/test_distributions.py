"""The wheel and the source distribution: the same bytes each time, whole, and a cluster that runs from them."""

import os
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def uv(*words: str, **environment: str) -> None:
    command = [sys.executable, "-m", "uv", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.full_form
def test_the_source_distribution_builds_the_same_wheel_and_the_program_runs_from_it(tmp_path: Path) -> None:
    """The last step is what `uvx --from WHEEL barycenter standalone` runs, with the packages of this environment."""
    wheel, source = build(tmp_path)
    out = tmp_path / "from-source"
    uv("build", "--quiet", "--offline", "--wheel", "--no-build-isolation", "--out-dir", str(out), str(source))
    (again,) = out.glob("*.whl")
    assert members(again) == members(wheel)
    installed = tmp_path / "installed"
    uv("pip", "install", "--quiet", "--offline", "--no-deps", "--target", str(installed), str(again))
    process = subprocess.Popen(
        [str(installed / "bin" / "barycenter"), "standalone", "--no-pipeline", "--web-port", "0", "--broker-port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert ready.startswith("ready: pulsar://127.0.0.1:"), said
    assert process.returncode == 0
    assert said.startswith("starting a broker: when `ready` is printed, connect clients")
    assert not Path(ready.partition("data in ")[2].partition(", deleted")[0]).exists()


def test_the_wheel_names_every_extra_and_only_light_packages_without_one(tmp_path: Path) -> None:
    wheel, _ = build(tmp_path)
    (metadata,) = (text for name, text in members(wheel).items() if name.endswith(".dist-info/METADATA"))
    found = Parser().parsestr(metadata.decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(found.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    core = {Requirement(text).name for text in found.get_all("Requires-Dist", []) if "extra ==" not in text}
    assert not core & {"numpy", "pandas", "pyarrow", "duckdb", "pyspark", "rich", "grpcio", "textual", "deltalake"}
