"""The recipe of the container image: what it copies is there, nothing runs as root, and no writable root is needed.

`tests/integration/test_container_image.py` builds and runs it where there is a builder.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.scripts import load_script

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "deploy" / "container"
COMPOSE: Any = yaml.safe_load((ROOT / "deploy" / "compose" / "compose.yaml").read_text())
RECIPES = ("Dockerfile", "pipeline.Dockerfile")


def instructions(recipe: str) -> list[tuple[str, str]]:
    """Return the instructions of a recipe: word and the rest, with continued lines joined."""
    text = "\n".join(line for line in (CONTAINER / recipe).read_text().splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def last(recipe: str, word: str) -> str:
    return [rest for found, rest in instructions(recipe) if found == word][-1]


def copied(recipe: str) -> list[str]:
    """Return the paths of the tree that a recipe copies."""
    found = []
    for word, rest in instructions(recipe):
        words = shlex.split(rest)
        if word == "COPY" and not any(option.startswith("--from") for option in words):
            found += [path for path in words[:-1] if not path.startswith("--")]
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_copied_is_in_the_tree_and_in_the_context(recipe: str) -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    for path in copied(recipe):
        assert (ROOT / path).exists(), path
        assert any(path == rule or path.startswith(f"{rule}/") or fnmatch(path, rule) for rule in kept), path


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_image_does_not_run_as_root(recipe: str) -> None:
    user = last(recipe, "USER").partition(":")[0]
    assert int(user) == 10001
    assert any(word == "RUN" and f"--uid {user}" in rest for word, rest in instructions(recipe))
    assert [word for word, _ in instructions(recipe)][-1] in ("CMD", "ENTRYPOINT")
    order = [word for word, _ in instructions(recipe)]
    assert "RUN" not in order[len(order) - order[::-1].index("USER") :], "nothing runs after the user is set"


def test_packages_are_installed_by_hash_only() -> None:
    for word, rest in instructions("Dockerfile"):
        for command in rest.split("&&") if word == "RUN" else ():
            if "pip install" in command:
                assert "--require-hashes" in command or "--no-index" in command, command


def test_the_lock_of_the_image_has_what_its_extras_name_in_the_versions_of_all() -> None:
    extras = load_script("lock").IMAGE_EXTRAS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *(need for extra in extras for need in project["optional-dependencies"][extra])]
    pins = {name: pinned(name) for name in ("broker.lock", "runtime.lock")}
    assert {canonicalize_name(Requirement(need).name) for need in needs} <= {name for name, _ in pins["broker.lock"]}
    assert pins["broker.lock"] <= pins["runtime.lock"]
    assert "pyspark" not in {name for name, _ in pins["broker.lock"]}


def pinned(lock: str) -> set[tuple[str, str]]:
    text = (ROOT / "requirements" / lock).read_text()
    return {
        (canonicalize_name(name), version) for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    }


def test_the_health_check_is_in_the_image_and_compose_runs_the_same() -> None:
    command = json.loads(last("Dockerfile", "HEALTHCHECK").partition("CMD ")[2])
    (source,) = (
        shlex.split(rest)[0] for word, rest in instructions("Dockerfile") if word == "COPY" and command[1] in rest
    )
    assert (ROOT / source).name == "health.py"
    brokers = [service for name, service in COMPOSE["services"].items() if name.startswith("broker-")]
    assert len(brokers) == 3
    for service in brokers:
        assert service["healthcheck"]["test"] == ["CMD", *command]


def test_compose_runs_brokers_without_rights_and_with_a_read_only_root() -> None:
    for name, service in COMPOSE["services"].items():
        if name.startswith("broker-"):
            assert service["read_only"] is True
            assert service["tmpfs"] == ["/tmp"]
            assert service["cap_drop"] == ["ALL"]
            assert "no-new-privileges:true" in service["security_opt"]
    assert "> /tmp/broker.conf" in last("Dockerfile", "CMD")


def health(conf: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(CONTAINER / "health.py"), str(conf)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_health_check_says_what_is_wrong(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    missing = health(conf)
    assert missing.returncode == 1
    assert missing.stderr.startswith(f"the broker is not ready: {conf}: ")
    conf.write_text("webServicePort=8080\nwebServicePort = 1\n# webServicePort=2\nwebServicePort=\n")
    closed = health(conf)
    assert closed.returncode == 1
    assert "http://127.0.0.1:1/admin/v2/brokers/ready" in closed.stderr


@pytest.mark.integration
@pytest.mark.xdist_group("cluster for tests")
def test_the_health_check_is_right_about_a_broker(tmp_path: Path) -> None:
    from pulsar_barycenter.testing import Cluster

    conf = tmp_path / "broker.conf"
    with Cluster(in_process=True) as cluster:
        conf.write_text(f"webServicePort={cluster.admin_url.rpartition(':')[2]}\n")
        found = health(conf)
        assert (found.returncode, found.stderr) == (0, "")
    assert health(conf).returncode == 1
