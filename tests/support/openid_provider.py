"""A real OpenID Connect provider on loopback: oidc-provider, from npm, with a few lines of ours around it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.daemon import daemon
from support.maven import PeerUnavailableError, default_cache

_SOURCE = Path(__file__).parents[1] / "peer" / "openid"
_LISTENS = re.compile(r"^(http://127\.0\.0\.1:\d+)$")
_INSTALL_TIMEOUT_S = 300

AUDIENCE = "https://cluster.example"


@contextmanager
def openid_provider(folder: Path, clients: Mapping[str, Mapping[str, Any]], port: int = 0) -> Iterator[str]:
    """Run a provider while the block lasts, and yield its issuer; its output goes to a file in `folder`.

    `clients` are by id, each with its `secret`, and the `lifetime` in seconds and `algorithm` of its tokens.

    Raises:
        PeerUnavailableError: there is no node, or npm cannot install the provider.
    """
    node = _program("node")
    script = _installed() / "provider.mjs"
    said = json.dumps({"port": port, "audience": AUDIENCE, "clients": clients})
    number = len(list(folder.glob("provider-*.log")))
    with daemon([node, str(script), said], folder / f"provider-{number}.log") as running:
        yield running.wait_for(_LISTENS)[1]


def _installed() -> Path:
    """Return the folder with our lines and all dependencies, installed once."""
    files = sorted(_SOURCE.iterdir())
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
    kept = default_cache() / f"openid-{digest}"
    if kept.is_dir():
        return kept
    npm = _program("npm")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as made:
        for each in files:
            shutil.copy(each, made)
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        try:
            subprocess.run(command, cwd=made, check=True, capture_output=True, timeout=_INSTALL_TIMEOUT_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise PeerUnavailableError("npm cannot install oidc-provider here: is there a network?") from error
        try:
            os.rename(made, kept)
        except OSError:
            assert kept.is_dir(), "another test has installed it meanwhile"
        Path(made).mkdir(exist_ok=True)
    return kept


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"{name} is not on the PATH; node 20 or later with npm runs an OpenID provider")
    return found
