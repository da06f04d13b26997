"""Folds the windows of bundles in Spark's tasks, by shard: for batches that are too large for the driver.

The checksum of a bundle's name determines its shard. A batch has two Spark jobs:

1. The tasks of the first job parse the reports, and write the samples to files of the data folder, one per shard. The
   driver receives only the keys of the reports and the names of their bundles, and decides which reports count.
2. A task of the second job has one shard. It reads the samples of the accepted reports and the windows of its bundles
   (its *block*), folds them with the same function as the driver, and writes the block of the next batch.

The driver then combines the blocks, because the averages of brokers and the publication need all bundles.

The state after a batch is the same as without shards, and only the driver writes it. Blocks are a copy of the state
that is already divided. A process that finds no blocks, such as one that has just started, divides the state. So after
a kill, a change of the number of shards, or a change of `--fold`, the next batch starts from the state.

- `blocks` has the files of a batch, by shard.
- `tasks` is the work of a task.
- `jobs` runs the Spark jobs.
- `windows` is the part of the driver.
"""
