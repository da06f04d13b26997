"""Ends a child process of a cluster when its parent ends, for any reason."""

import ctypes
import os
import signal
import sys

from pulsar_barycenter.standalone.process import PARENT_VARIABLE

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent process ends. The parent's id is in the environment variable
    PARENT_VARIABLE. Exit now if the parent has ended already. Without that variable, or on another system than Linux,
    do nothing.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(f"the process that started this one ({parent}) has ended")
