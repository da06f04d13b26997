"""A data folder that is deleted when its cluster ends."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.standalone import folder_remover

PREFIX: Final = "barycenter-ephemeral-"


@contextmanager
def ephemeral_folder() -> Iterator[Path]:
    """Yield a new folder below the system's temporary folder, and delete it when the block ends.

    Only the user of this process may read it. If this process is killed, a second process, which is started here,
    deletes the folder. The folder stays only if both processes are killed at the same time, for example by the end of a
    container or a loss of power.

    Raises:
        OSError: the folder cannot be created.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    remover = subprocess.Popen(  # noqa: S603 - a file of this package, by this interpreter
        [sys.executable, "-I", "-S", folder_remover.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C is for the cluster
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        remover.communicate()
