"""The tables: Parquet files that a batch writes once per date, and that compaction merges later.

Problem. Readers read the tables while the pipeline writes, merges and deletes files, and a kill can come at any moment.
Each row must still be read exactly once. Rule: the name of a file contains the ids of its batches, and a file replaces
all files whose batches it contains. So a listing of the folder alone shows which files make up a table.

- `schemas` has the columns, and the catalogue of all tables.
- `table_log` has `TableFile`, and the interface of a log for other engines.
- `files` names, lists and writes the files.
- `reading` opens files, and reports damaged ones by name.
- `segments` records which rows of a file belong to which batch.
- `compaction` merges small files and deletes old dates.
- `time_travel` returns the tables as they were after a batch.
- `formats` chooses plain Parquet or Delta; `delta` writes the logs of Delta Lake.

Nothing here needs Spark. `spark.struct_types` and `spark.table_reader` give the tables to Spark, `pipeline.history`
queries them without it.
"""
