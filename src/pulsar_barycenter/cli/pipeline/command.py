"""`barycenter pipeline`: the group of the pipeline's commands."""

from typing import Final

from pulsar_barycenter.cli.groups import LazyCommandGroup

_COMMANDS: Final = {
    "run": ("pipeline.run", "Fold the load reports under DIR into its tables until Ctrl-C; needs PySpark."),
    "status": ("pipeline.status", "Show the state of the pipeline of DIR: running, idle, stopped, failed, restarting."),
    "sizing": ("pipeline.sizing", "Estimate disk, memory and times of a pipeline, and recommend options for it."),
    "prepare": ("pipeline.prepare", "Create the archive that lets Spark start faster, or delete it; needs PySpark."),
    "check": ("pipeline.check", "Compare the tables of DIR with tables computed from its logs; needs PySpark."),
    "convert": ("pipeline.convert", "Add a log of Delta Lake to the tables of DIR for other engines, or remove it."),
    "files": ("pipeline.files", "Print the Parquet files that make up a table, for engines that take a list."),
    "delete-tenant": ("pipeline.delete_tenant", "Delete the data of a tenant from tables, logs and archive of DIR."),
    "refold": ("pipeline.refold", "Compute the averages of DIR again and compare them; needs PySpark."),
}

command = LazyCommandGroup(
    modules=_COMMANDS, name="pipeline", help="Compute tables and averages from load reports, with Spark."
)
