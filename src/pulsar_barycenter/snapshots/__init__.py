"""Snapshots that stand in files, and by what would be decided upon them.

`snapshot_file` reads and writes one whatever it is; behind it are `parquet_snapshot` (columns, bit by bit) and
`pipeline_tables` (of now or any time in the past). `doubts` tells what is doubtful about the data.

`settings_in_force` reads a data folder with the settings that its brokers decide by; `decided_by` finds out by which
configuration, load manager and strategies is decided; `load.rounds.snapshot_rounds` runs rounds upon a snapshot.

The snapshot and its JSON document are values of `load`, which reads no file; words and tables for people are `cli.ask`.
"""
