"""Seeds that differ from commit to commit, and are the same wherever a commit is tested."""

import hashlib
import subprocess
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LARGEST = 1_000_000_000


@cache
def first_of_commit() -> int:
    """Return the first seed to draw for the commit that is checked out; 0 outside of a repository."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int.from_bytes(hashlib.sha256(found.stdout.encode()).digest()[:8], "big") % _LARGEST
