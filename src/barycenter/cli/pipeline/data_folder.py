"""The data folder of a command, opened: without Spark if it is of this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from barycenter.cli.failure import fail, in_words
from barycenter.cli.folders import WrongFolderError, check_load_folder
from barycenter.pipeline.spark.addresses import open_storage
from barycenter.pipeline.spark.java import JavaNotFoundError
from barycenter.pipeline.spark.session import SPARK_ERRORS, create_session
from barycenter.pipeline.storage.files import Storage, local_folder

CANNOT_OPEN: tuple[type[Exception], ...] = (JavaNotFoundError, OSError, ValueError, *SPARK_ERRORS)


@contextmanager
def opened(data: str, conf: Mapping[str, str]) -> Iterator[Storage]:
    """Give the files at `data`, by a Spark session of this block if need be; what hinders that ends the program."""
    folder = local_folder(data)
    if folder is not None:
        try:
            check_load_folder(folder)
            yield open_storage(data)
        except (OSError, WrongFolderError) as error:
            fail(in_words(error))
        return
    try:
        session = create_session("barycenter", "local[1]", {"spark.driver.memory": "512m", **conf})
        try:
            yield open_storage(data, session)
        finally:
            session.stop()
    except CANNOT_OPEN as error:
        fail(in_words(error))
