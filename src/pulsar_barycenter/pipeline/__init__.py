"""The pipeline: load reports of brokers become tables, and the averages that the leader balances by.

A report file's way is `parsing` (Spark finds and reads it), `stream` (the micro-batches), `reports` (which of them
count), `folds` (what they change) and `tables` (what is kept). Read in this order:

`storage`        where a data directory lies, what lies where in it, who may write
`tables`         the columns of the tables, their files, compaction
`reports`        which reports count, and what becomes of those that do not
`folds`          windows, ownership and balance, as arithmetic
`moves`          which bundles went elsewhere, and which of them too often
`held`           how long a report holds, and means that are weighted by it
`load_means`     means of load over a period or its intervals, by that rule
`history`        questions to the tables
`load_over_time` loads in steps, within bounds, for a dashboard
`local_sql`      any question, in SQL, by DuckDB
`spark`          Java, the session, and what only Spark reaches; from here on Spark is needed
`pulsar_source`  topics as tables and streams
`parsing`        lines of logs to reports and rows
`batch`          whole histories at once
`stream`         batch after batch, from state to state
`sharded`        the windows of a batch folded by Spark's tasks, for large clusters
`deletion`       the data of a tenant, taken out of all of it
`running`, `job` the process around them

Who decides by the averages is `load`; who writes the logs are brokers and `observer`.
"""
