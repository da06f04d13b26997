"""The tables: Parquet files that are written once, by batch and date, and merged later.

Read `schemas` (the columns and the catalogue), `files` (how a file's name says which batches are in it, and which files
make up a table), `reading` (how a file is opened, and what is said of a damaged one) and `compaction` (merging and
deletion). Free of Spark: `spark.struct_types` and `spark.table_reader`
show the tables to it, and `history` asks them without.
"""
