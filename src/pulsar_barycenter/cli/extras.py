"""What is not installed: the sentence that names the extra of this package that brings it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.cli.failure import fail

_EXTRAS: Final = {
    "pyspark": "pipeline",
    "py4j": "pipeline",
    "pandas": "pipeline",
    "pulsar": "source",
    "_pulsar": "source",
    "grpc": "etcd",
    "kazoo": "zookeeper",
    "textual": "top",
    "deltalake": "delta",
}
_COMMAND_EXTRAS: Final = {"demo": "demo"}
"""Commands that need more than the module that is missed first."""


@contextmanager
def extra_is_told(command: str) -> Iterator[None]:
    """End the program with a sentence if `command` misses a module that an extra brings; other errors pass."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRAS:
            raise
        extra = _COMMAND_EXTRAS.get(command, _EXTRAS[module])
        fail(f"{command} needs {module}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")
