"""A program whose standard error is a terminal, as when a user runs it and pipes its output."""

import os
import pty
import subprocess
import sys


def run_in_terminal(program: str) -> tuple[bytes, str]:
    """Run Python source; return its standard output, and its output on a terminal of 80 columns."""
    terminal, its_end = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=its_end,
            check=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )
        return done.stdout, os.read(terminal, 65536).decode()
    finally:
        os.close(its_end)
        os.close(terminal)
