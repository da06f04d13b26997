"""Starts Java and Spark sessions, and gives the pipeline's data to Spark as DataFrames and storages.

- `java` finds a Java; `java_cache` has the folder of its archives; `class_archive` and `java_options` make its start
  cheaper.
- `java_start` and `session` start Java and a session, or connect to a server.
- `hadoop_storage`, `listed_storage` and `addresses` are for data directories that only Spark reaches.
- `struct_types` and `table_reader` give one table as a DataFrame, `history_tables` has all of them; `sql` runs queries
  on them.
- `tasks` runs many tasks as one Spark job, and yields each result when it is ready.

`parsing`, `batch` and `stream` define what Spark computes; replays on Spark use `tasks`.

Only this package uses a SparkContext or the Java process of a session. All other code runs on Spark Connect, too.
"""
