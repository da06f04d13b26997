"""The running pipeline's batches: each starts from the state of the one before and takes effect once.

Read `micro_batches` (what a batch does, and in which order), `late` (what came too late for it), `batch_result` (what
it did), `live_state` (what it changes), `state` (what it hands on, on the disk), `publication` (what the leader gets),
`generations` (how batches are numbered across Spark's records of files) and `backlog` (more reports than a batch takes,
in their order). When batches run, and what happens if one fails, is left to `running`.
"""
