"""The batches of the running pipeline: each starts from the state of the batch before and takes effect exactly once.

Problem. The pipeline can be killed at any moment, and Spark then runs the last batch again. Rule: a batch reads the
state with the next smaller id and writes files whose names contain its own id. So a batch that runs again writes the
same files, and each report counts once.

- `micro_batches` carries out a batch, in a fixed order of steps.
- `windows` folds the samples of a batch into the averages of bundles.
- `late` counts reports and decisions that came too late for a batch.
- `batch_result` is the result of a batch.
- `live_state` is the state in memory, `state` the state on the disk.
- `publication` writes what the leader reads.
- `generations` numbers batches across Spark's records of files.
- `backlog` orders reports when more wait than one batch takes.

`running` decides when batches run, and what happens if a batch fails.
"""
