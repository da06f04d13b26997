"""The laboratory: load of a file, a data folder or a seed, run through strategies on many processors, and reported.

`inputs` reads what is replayed, with `trace_files` of CSV, `shared_input` has it in memory once for many `processes`,
`running` runs a grid on them and keeps what is done, `spark_grid` runs it on Spark. `series` is what is kept of every
step of a run, `board` has medians by strategy and setting, `results` writes and prints them, `report` makes a page of
them. `benches` runs scenarios and published experiments, `advising` has what an advice needs.

The cluster in virtual time, what is measured of it, and how an advice is chosen, are `replay`, which is pure: here
files are read, processes started, and results written. Options are those of `cli`.
"""
