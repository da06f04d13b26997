"""Reports a missing library with the extra of this package that installs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.cli.failure import fail

_EXTRAS: Final = {
    "numpy": "balance",
    "duckdb": "history",
    "jinja2": "history",
    "pyarrow": "history",
    "pyspark": "pipeline",
    "py4j": "pipeline",
    "pandas": "pipeline",
    "pulsar": "source",
    "_pulsar": "source",
    "grpc": "etcd",
    "kazoo": "zookeeper",
    "rich": "top",
    "textual": "top",
    "deltalake": "delta",
}
_COMMAND_EXTRAS: Final = {"demo": "demo"}
"""By command: the extra to name, whatever module is missing. It installs all modules that the command needs."""
_WITH_NUMPY: Final = {
    **dict.fromkeys(("plan", "replay", "advise", "balance-bench", "history"), "history"),
    "pipeline": "pipeline",
}
"""By the first word of a command: the extra to name if numpy is missing. It installs numpy and the other modules that
the command needs, which are imported after numpy.
"""


@contextmanager
def reports_missing_extra(command: str) -> Iterator[None]:
    """While the block runs, end the program with a message if a module is missing that an optional extra of the package
    installs; other errors propagate.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in _EXTRAS:
            raise
        extra = _COMMAND_EXTRAS.get(command, _EXTRAS[module])
        if extra == "balance":
            extra = _WITH_NUMPY.get(command.partition(" ")[0], extra)
        fail(f"{command} needs {module}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")
