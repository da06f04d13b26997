"""Starts Java and Spark sessions, and gives the pipeline's data to Spark as DataFrames and storages.

Read `java` (finding one), `java_cache` (what is kept for it), `class_archive` and `java_options` (what makes its start
cheap), `java_start` and `session` (starting it, or reaching a server), `hadoop_storage`, `listed_storage` and
`addresses` (data directories that only Spark reaches), `struct_types` and `table_reader` (the tables as DataFrames),
`sql` (queries to them) and `tasks` (many pieces of work as one job, whose answers come one by one). What is computed is
left to `parsing`, `batch` and `stream`, and with `tasks` to replays on Spark.

Only this package uses a SparkContext or the Java process of a session. All else runs on Spark Connect, too.
"""
