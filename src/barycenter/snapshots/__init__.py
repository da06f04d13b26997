"""Snapshots that stand in files, and what would be decided upon them: all that `barycenter decide` does but print.

`snapshot_file` reads and writes one whatever it is; behind it are `parquet_snapshot` (columns, bit by bit) and
`pipeline_tables` (of now or any time in the past). `doubts` tells what is doubtful about the data.

`decided_by` finds out by which configuration, load manager and strategies is decided; `rounds` runs them as a leader
would, and tells it in the lines of `decided`. Nothing is carried out.

The snapshot and its JSON document are values of `load`, which reads no file; words and tables for people are `cli.ask`.
"""
