"""The data directory as files: the operations on them, their paths, and the lock for one writer.

Problem. A data directory can be a folder of this machine or an address in HDFS or S3. The pipeline can be killed at any
moment, and readers never lock. So a file appears as a whole, and at most one process writes.

- `files` declares the operations (`Storage`) and implements them for a folder of this machine.
- `arrow_storage` implements reading for buckets that Arrow can reach; `read_only` refuses to write to what can only be
  read.
- `layout` lists the paths of the files.
- `lock` lets one process at a time run the pipeline.

The packages that write the files define their content. `spark.hadoop_storage` implements `Storage` for addresses that
only Spark can reach.
"""
