"""The windows of bundles folded by Spark's tasks: for clusters whose batches are too large for the driver.

A bundle is in the shard that its name's checksum gives it. A batch is two jobs. The tasks of the first parse the
reports, as always, and keep the samples in files of the data folder, cut by shard; the driver gets what names each
report, and the names of its bundles, and decides which reports count. A task of the second job has one shard: it reads
the samples of the accepted reports and the windows of its bundles (its *block*), folds them with the function of the
driver, and writes its block of the next batch. The driver puts the blocks together: the averages of brokers, and the
publication, need all of them.

What a batch hands on is the same state as without shards, written by the driver alone. Blocks are a copy of it that
saves the driver from cutting it up; a process that finds none, because it has just begun, cuts the state. So a kill,
another number of shards, and a change between both ways, are all the same: the next batch begins from the state.

Read `blocks` (files of a batch, by shard), `tasks` (what a task does), `jobs` (Spark's part) and `windows` (the
driver's).
"""
