"""The data directory as files: what can be done with them, which one lies where, and whose they are.

Read `files` (the operations, and a folder of this machine), `layout` (the paths) and `lock` (one process at a time).
What is in the files is left to the chapters that write them, and addresses that only Spark reaches to
`spark.hadoop_storage`.
"""
