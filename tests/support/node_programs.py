"""Programs for Node, with the packages that their package-lock.json names."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from support.maven import PeerUnavailableError, default_cache

_TIMEOUT_S: Final = 600


def node() -> str:
    """Return the path of the program `node`.

    Raises:
        PeerUnavailableError: it is not on the PATH.
    """
    return _found("node")


@cache
def installed(sources: Path) -> Path:
    """Return a copy of a folder with its packages, kept from run to run as long as no source changes.

    Raises:
        PeerUnavailableError: there is no npm, or its packages cannot be had.
    """
    npm = _found("npm")
    files = sorted(path for path in sources.iterdir() if path.suffix in (".js", ".json"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    kept = default_cache() / f"node-{sources.name}-{digest}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        said = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if said.returncode:
            raise PeerUnavailableError(f"the packages of {sources} cannot be had: {said.stderr[-1_000:]}")
        os.replace(made, kept)
    return kept


def _found(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"{name} is not on the PATH; Node 20 or later, with npm, runs the programs for Node")
    return found
