"""The running pipeline's batches: each starts from the state of the one before and takes effect once.

Read `micro_batches` (what a batch does, and in which order), `windows` (where its samples are folded), `late` (reports
that came too late for it), `batch_result` (its result), `live_state` (the state that it changes), `state` (the state on
the disk), `publication` (what the leader reads),
`generations` (how batches are numbered across Spark's records of files) and `backlog` (more reports than a batch takes,
in their order). When batches run, and what happens if one fails, is left to `running`.
"""
