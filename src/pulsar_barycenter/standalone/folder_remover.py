"""Deletes the folder in the command line when standard input ends: `python folder_remover.py FOLDER`.

`ephemeral` runs it as a separate process, so that the folder is also deleted if its owner is killed. It is started by
its path and only imports the standard library, so that it needs only a few megabytes.
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
    for _ in range(_ATTEMPTS):  # processes of the cluster that are ending may still write files
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
