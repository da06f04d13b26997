"""`barycenter pipeline`: run the load pipeline, ask for its status, compute its averages anew."""

from typing import Final

from pulsar_barycenter.cli.groups import LazyCommandGroup

_COMMANDS: Final = {
    "run": ("pipeline.run", "Fold the load reports under DIR into its tables until Ctrl-C; needs PySpark."),
    "status": ("pipeline.status", "Show the state of the pipeline of DIR: running, idle, stopped, failed, restarting."),
    "prepare": ("pipeline.prepare", "Make the archive by which Spark starts quickly, or remove all; needs PySpark."),
    "check": ("pipeline.check", "Compare the tables of DIR with what its logs make of them; needs PySpark."),
    "convert": ("pipeline.convert", "Give the tables of DIR a log of Delta Lake for other engines, or take it away."),
    "files": ("pipeline.files", "Print the Parquet files that make up a table, for engines that are given a list."),
    "delete-tenant": ("pipeline.delete_tenant", "Delete a tenant's data from tables, logs and archive of DIR."),
    "refold": ("pipeline.refold", "Compute the averages of DIR anew and compare them; needs PySpark."),
}

command = LazyCommandGroup(
    modules=_COMMANDS, name="pipeline", help="Make tables and averages of load reports, with Spark."
)
