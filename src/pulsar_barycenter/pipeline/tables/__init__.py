"""The tables: Parquet files that are written once, by batch and date, and merged later.

Read `schemas` (the columns and the catalogue), `table_log` (what a table consists of, and the contract of its log),
`files` (how a file's name says which batches are in it, and which files make up a table), `reading` (how a file is
opened, and what is said of a damaged one), `segments` (which rows of a file are of which batch), `compaction` (merging
and deletion), `time_travel` (the tables as of a batch), `formats` (plain Parquet or Delta) and `delta` (the logs of
Delta Lake). Free of Spark: `spark.struct_types` and `spark.table_reader` show the tables to it, and `history` asks them
without.
"""
