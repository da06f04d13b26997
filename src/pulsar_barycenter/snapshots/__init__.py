"""Snapshots that are read from files and tables, and the configuration under which they are decided.

Problem. An operator wants to know what the leader would decide, or why it decided, from a snapshot file, the pipeline's
tables or a folder that `collect` filled: without a running cluster, and for any time in the past. The result is only
right under the configuration that the brokers had at that time.

- `snapshot_file` reads a snapshot from any of these sources, and writes snapshot files. `parquet_snapshot` has the
  Parquet form, which keeps every bit; `pipeline_tables` builds a snapshot from tables, which `table_folder` finds.
  `data_warnings` checks the data.
- `settings_in_force` reads the settings of a data folder's brokers at a time. `decided_by` chooses the configuration,
  the load manager and the strategies of a decision.

Snapshots and their JSON documents are values of `load`, which reads no files; `load.rounds.snapshot_rounds` runs rounds
on a snapshot. `cli.ask` prints the result.
"""
