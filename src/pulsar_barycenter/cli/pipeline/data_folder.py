"""Opens the data folder of a command: without Spark if it is on this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.pipeline.storage.files import Storage, local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_start


@contextmanager
def opened(data: str, conf: Mapping[str, str], *, answers_a_program: bool) -> Iterator[Storage]:
    """Yield the storage at `data`; if only Spark reaches it, run a Spark session while the block runs.

    End the program if the storage cannot be opened. With `answers_a_program` the start of Spark is shown on a terminal
    only.
    """
    folder = local_folder(data)
    if folder is not None:
        try:
            check_load_folder(folder)
            yield PipelineLayout.of(folder)
        except (OSError, WrongFolderError) as error:
            fail(in_words(error))
        return
    # a local folder needs neither the start-up time nor the packages of Spark
    from pulsar_barycenter.pipeline.spark.addresses import open_storage
    from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
    from pulsar_barycenter.pipeline.spark.java_options import Compilers
    from pulsar_barycenter.pipeline.spark.session import SPARK_ERRORS, create_session

    cannot_open: tuple[type[Exception], ...] = (JavaNotFoundError, OSError, ValueError, *SPARK_ERRORS)
    try:
        settings = {"spark.driver.memory": "512m", **conf}
        with spark_start(answers_a_program=answers_a_program) as on_phase:
            session = create_session(
                *("barycenter", "local[1]", settings), compilers=Compilers.FIRST, on_phase=on_phase
            )
        try:
            yield open_storage(data, session)
        finally:
            session.stop()
    except cannot_open as error:
        fail(in_words(error))
