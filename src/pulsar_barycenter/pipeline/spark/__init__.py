"""Starts Java and Spark sessions, and opens the pipeline's data in Spark as DataFrames and storages.

- `java` finds a Java. `java_cache` has the folder of the files made for Java. `class_archive` and `java_options` make
  its start faster.
- `java_start` and `session` start Java and a session, or connect to a server.
- `hadoop_storage`, `listed_storage` and `addresses` are for data directories that only Spark can reach.
- `struct_types` and `table_reader` open one table as a DataFrame, `history_tables` all of them. `sql` runs queries on
  them.
- `tasks` runs many tasks as one Spark job, and yields each result when its task ends.

`parsing`, `batch` and `stream` define what Spark computes; replays on Spark use `tasks`.

Only this package uses a SparkContext or the Java process of a session. All other code also runs on Spark Connect.
"""
