"""Opens a data directory: a local folder, or an address that Spark can reach."""

from typing import Final

from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.hadoop_storage import HadoopStorage
from pulsar_barycenter.pipeline.spark.listed_storage import ListedStorage
from pulsar_barycenter.pipeline.spark.session import is_connected
from pulsar_barycenter.pipeline.storage.files import Storage, local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.read_only import ReadOnlyStorage

_CONNECTED: Final = (
    "with Spark Connect a data directory is read only. Start the command with a Spark master (`--master local[2]` or "
    "spark://host:7077) instead"
)


def open_storage(address: str, session: SparkSession | None = None) -> Storage:
    """Return the data directory at `address`. If the address is not local, `session` must be a Spark session that can
    reach it.

    If that is a session of Spark Connect, the directory can be read but not written.

    Raises:
        ValueError: there is no session, and the address is not local.
        OSError: Spark cannot reach the address.
    """
    folder = local_folder(address)
    if folder is not None:
        return PipelineLayout.of(folder)
    if session is None:
        raise ValueError(f"{address} is not a local folder: only Spark can read it; give a Spark session")
    if is_connected(session):
        return ReadOnlyStorage(ListedStorage(session, address), _CONNECTED)
    return HadoopStorage(session, address)
