"""A writer of a data folder that is looked at, or killed, between its changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable


class KilledError(Exception):
    """Stands for SIGKILL."""


@contextmanager
def at_each_change(hook: Callable[[], None]) -> Iterator[None]:
    """Call `hook` before each change that the writer makes to the folder, which is after the one before it."""
    changes = ((Path, "replace"), (Path, "unlink"), (Path, "rename"), (DeltaTable, "create_write_transaction"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)  # no machine loses power
        for owner, name in changes:
            original = getattr(owner, name)

            def wrapped(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                hook()
                return _original(*args, **kwargs)

            patch.setattr(owner, name, wrapped)
        yield
