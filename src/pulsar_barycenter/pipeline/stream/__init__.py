"""The running pipeline's batches: each starts from the state of the one before and takes effect once.

Read `micro_batches` (what a batch does, and in which order), `batch_result` (what it did), `state` (what it hands on),
`publication` (what the leader gets) and `generations` (how batches are numbered across Spark's records of files). When
batches run, and what happens if one fails, is left to `running`.
"""
