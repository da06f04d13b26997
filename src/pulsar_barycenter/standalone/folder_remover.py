"""Remove the folder named on the command line once standard input ends: `python folder_remover.py FOLDER`.

A process of its own, started by `ephemeral`, so that the folder also goes when its owner was killed. It is run by its
path and imports the standard library alone: it costs a few megabytes and imports nothing of a cluster.
"""

import shutil
import sys
import time
from pathlib import Path

_ATTEMPTS = 120
_PAUSE_S = 0.25


def main() -> None:
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    for _ in range(_ATTEMPTS):  # processes of the cluster that are about to end may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
