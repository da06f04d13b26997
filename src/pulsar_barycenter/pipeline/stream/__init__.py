"""The running pipeline's batches: each starts from the state of the one before and takes effect once.

Read `micro_batches` (what a batch does, and in which order), `windows` (where its samples are folded), `late` (what
came too late for it), `batch_result` (what it did), `state` (what it hands on), `publication` (what the leader gets),
`generations` (how batches are numbered across Spark's records of files) and `backlog` (more reports than a batch takes,
in their order). When batches run, and what happens if one fails, is left to `running`.
"""
