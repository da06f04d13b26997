"""Runs a grid as one Spark job, with one task for each scenario, on the cores of a machine or a cluster.

The job's plan has the scenarios. The input is a file that Spark copies once to each machine, where all tasks map it
into memory; docs/decisions/0039 says why. The result of a run returns when its task ends, and the driver writes the
same files as `running`, byte for byte.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_barycenter.lab.errors import GridError
from pulsar_barycenter.lab.inputs import Input, InputSpec, Source, read_source
from pulsar_barycenter.lab.running import SHARED, Ended, Runner, kept, text_of
from pulsar_barycenter.lab.shared_input import shared_input, write_source
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.java_options import Compilers
from pulsar_barycenter.pipeline.spark.session import SPARK_ERRORS, create_session
from pulsar_barycenter.pipeline.spark.tasks import SETTINGS, BroughtFile, TaskError, answers, bring
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_start

_CANNOT_START: tuple[type[Exception], ...] = (JavaNotFoundError, OSError, ValueError, *SPARK_ERRORS)


@contextmanager
def spark_started(master: str | None, conf: Mapping[str, str]) -> Iterator["SparkGrid"]:
    """Start Spark on the cluster `master`, with the Spark settings `conf`, and stop it when the block ends. Without
    `master`, Spark uses one core of this machine, which is enough to read an input.

    Raises:
        GridError: Spark does not start.
    """
    settings = {"spark.driver.memory": "512m", **SETTINGS, **conf}
    try:
        with spark_start() as on_phase:  # Java only moves files and tasks; Python computes
            session = create_session(
                *("barycenter replay", master or "local[1]", settings), compilers=Compilers.FIRST, on_phase=on_phase
            )
    except _CANNOT_START as error:
        raise GridError(f"Spark does not start: {in_words(error)}") from error
    try:
        yield SparkGrid(session)
    finally:
        session.stop()


@dataclass(frozen=True)
class _BroughtInput:
    """A function that returns the input of a replay for a seed. It is called in a task of Spark, and reads the file
    that Spark copied to the task's machine.
    """

    file: BroughtFile

    def __call__(self, seed: int) -> Input:
        return shared_input(self.file.path(), seed)


class SparkGrid:
    """Reads the input of a grid of replays with a Spark session, and runs the grid as a Spark job."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def read(self, spec: InputSpec) -> Source:
        """Read a data folder at an address that Spark reaches; raises the errors of `read_source`."""
        return read_source(spec, open_storage(spec.paths[0], self._session))

    def run(
        self, scenarios: Sequence[Scenario], source: Source, base: Mapping[str, str], out: Path
    ) -> Generator[Ended]:
        """Run scenarios on the input `source` as one Spark job; write each completed run into the folder `out`, and
        yield how each run ended, in the order in which they end. `base` are the keys of broker.conf that the scenarios'
        settings override.

        Raises:
            GridError: the job failed.
        """
        write_source(out / SHARED, source)
        runner = Runner(base, _BroughtInput(bring(self._session, out / SHARED)))
        texts = [text_of(scenario) for scenario in scenarios]
        try:
            for place, answer in answers(
                self._session, runner, texts, what=f"replay of {count_of(len(texts), 'scenario')}"
            ):
                yield kept(out, scenarios[place], answer)
        except TaskError as error:
            which = "" if error.place is None else f" on {scenarios[error.place].told}"
            raise GridError(
                f"the Spark job failed{which}: {error}; if memory is short, give executors more memory or fewer cores "
                "with --conf: the same command continues with the remaining runs"
            ) from error
