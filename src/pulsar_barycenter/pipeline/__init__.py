"""The pipeline: computes tables, and the averages with which the leader balances, from the load reports of brokers.

Problem. Reports arrive as files, sometimes late, twice or in the wrong order, and the pipeline can be killed at any
moment. Each report must count exactly once. Rule: a batch reads new reports and the state of the batch before, and
writes files that have its batch id, so that a batch can run again.

A report file passes `parsing` (Spark finds and reads it), `reports` (does it count?), `folds` (what does it change?)
and `tables` (where its rows are stored); `stream` is the sequence of batches. Read the packages and modules in this
order:

`storage`        the files and paths of a data directory, and the lock for one writer
`tables`         the columns of the tables, their files, compaction
`reports`        which reports count, and where refused ones are kept
`folds`          windows (averages), ownership and balance, as pure functions
`moves`          moves of bundles, and bundles that moved too often
`held`           for how long a report holds, and means weighted by this time
`load_means`     means of load over a period or its intervals, weighted this way
`history`        queries to the tables
`load_over_time` load in steps of time for the dashboard, within bounds
`local_sql`      SQL queries to the tables, by DuckDB
`spark`          Java, Spark sessions, and data that only Spark reaches; the following packages need Spark
`pulsar_source`  Pulsar topics as Spark tables and streams
`parsing`        lines of logs to reports and rows
`batch`          computes whole histories at once
`stream`         the micro-batches, each from the state of the one before
`sharded`        folds the windows of a batch in Spark's tasks, for large clusters
`deletion`       deletes the data of a tenant
`running`, `job` the process that runs the batches

`load` balances with the averages; brokers and `observer` write the logs.
"""
