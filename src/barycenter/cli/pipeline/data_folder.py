"""The data folder of a command, opened: without Spark if it is of this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from barycenter.cli.failure import fail, in_words
from barycenter.pipeline.spark.addresses import open_storage
from barycenter.pipeline.spark.java import JavaNotFoundError
from barycenter.pipeline.spark.session import SPARK_ERRORS, create_session
from barycenter.pipeline.storage.files import Storage, local_folder

CANNOT_OPEN: tuple[type[Exception], ...] = (JavaNotFoundError, OSError, ValueError, *SPARK_ERRORS)


@contextmanager
def opened(data: str, conf: Mapping[str, str]) -> Iterator[Storage]:
    """Give the files at `data`, by a Spark session of this block if need be; what hinders that ends the program."""
    if local_folder(data) is not None:
        yield open_storage(data)
        return
    try:
        session = create_session("barycenter", "local[1]", {"spark.driver.memory": "512m", **conf})
        try:
            yield open_storage(data, session)
        finally:
            session.stop()
    except CANNOT_OPEN as error:
        fail(in_words(error))
