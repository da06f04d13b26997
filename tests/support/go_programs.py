"""Programs in Go, built once from sources with the modules that their go.mod names."""

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


def go() -> str:
    """Return the path of the program `go`.

    Raises:
        PeerUnavailableError: it is not on the PATH.
    """
    found = shutil.which("go")
    if found is None:
        raise PeerUnavailableError("go is not on the PATH; Go 1.24 or later builds the programs in Go")
    return found


@cache
def built(sources: Path) -> Path:
    """Return the program built from a folder with a go.mod, kept from run to run as long as no source changes.

    Raises:
        PeerUnavailableError: there is no Go, or its modules cannot be had.
    """
    files = [*sorted(sources.glob("*.go")), sources / "go.mod", sources / "go.sum"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    kept = default_cache() / f"go-{sources.name}-{digest}"
    if kept.is_file():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as made:
        program = Path(made) / "program"
        said = ran_go(("mod", "download"), sources)
        if said.returncode:
            raise PeerUnavailableError(f"the modules of {sources} cannot be had: {said.stderr[-1_000:]}")
        said = ran_go(("build", "-o", str(program), "."), sources)
        assert said.returncode == 0, said.stderr
        os.replace(program, kept)
    return kept


def ran_go(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `go` with these arguments in a folder, for at most 10 minutes, and return how it ended."""
    return subprocess.run([go(), *words], cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
