"""The image of `deploy/container/Dockerfile`: it builds, and its broker serves without root and on a read-only root.

Skipped where no container program runs, or the image that it begins with is not to be had.
"""

import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "container" / "Dockerfile"
HEALTH = ("python", "/opt/barycenter/health.py")
CONF = """
clusterName=image
bindAddress=0.0.0.0
barycenterUnauthenticatedNetworkAllowed=true
metadataStoreUrl=sqlite:/var/lib/barycenter/metadata.sqlite
barycenterDataDir=/var/lib/barycenter
"""


def run(*words: str, within_s: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(words, capture_output=True, text=True, timeout=within_s, check=False)
    assert not check or found.returncode == 0, found.stdout + found.stderr
    return found


@pytest.fixture(scope="module")
def program() -> str:
    """A container program that runs here and has, or can pull, the image that the recipe begins with."""
    base = next(line.split()[1] for line in RECIPE.read_text().splitlines() if line.startswith("FROM "))
    tried = []
    for name in ("docker", "podman"):
        if shutil.which(name) is None:
            tried.append(f"there is no {name}")
        elif run(name, "info", check=False).returncode:
            tried.append(f"{name} does not run here")
        elif run(name, "image", "inspect", base, check=False).returncode and (
            run(name, "pull", "--quiet", base, check=False, within_s=300).returncode
        ):
            tried.append(f"{name} cannot pull {base}")
        else:
            return name
    pytest.skip(f"no image can be built: {'; '.join(tried)}")


@pytest.fixture(scope="module")
def image(program: str) -> Iterator[str]:
    name = f"barycenter-test-{uuid.uuid4().hex[:12]}"
    run(program, "build", "--quiet", "-t", name, "-f", str(RECIPE), str(ROOT), within_s=1000)
    yield name
    run(program, "image", "rm", name, check=False)


def test_a_broker_of_the_image_serves_without_root_on_a_read_only_root(
    program: str, image: str, tmp_path: Path
) -> None:
    (tmp_path / "broker.conf").write_text(CONF)
    tmp_path.chmod(0o755)
    started = run(
        *(program, "run", "--detach", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"),
        *("--volume", "/var/lib/barycenter", "--volume", f"{tmp_path}:/etc/barycenter:ro"),
        *("--hostname", "localhost", image),
    )
    container = started.stdout.strip()
    try:
        deadline = time.monotonic() + 120
        while run(program, "exec", container, *HEALTH, check=False).returncode:
            state = run(program, "inspect", "--format", "{{.State.Running}}", container).stdout.strip()
            logs = run(program, "logs", container, check=False)
            assert state == "true", logs.stdout + logs.stderr
            assert time.monotonic() < deadline, logs.stdout + logs.stderr
        assert run(program, "exec", container, "id", "-u").stdout.strip() == "10001"
        refused = run(program, "exec", container, "touch", "/opt/barycenter/x", check=False)
        assert "ead-only file system" in refused.stderr
        run(program, "exec", container, "barycenter", "status", "--url", "http://127.0.0.1:8080")
        missing = run(program, "exec", container, "barycenter", "demo", check=False)
        assert "pip install 'pulsar-barycenter[demo]'" in missing.stderr
        run(program, "stop", container, within_s=120)
        assert run(program, "inspect", "--format", "{{.State.ExitCode}}", container).stdout.strip() == "0"
    finally:
        run(program, "rm", "--force", "--volumes", container, check=False)
