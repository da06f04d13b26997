"""Runs the pipeline as a process: options, the loop of batches, status, metrics and log.

- `job_options` declares the options. `pipeline_job` starts, stops and retries queries, and maintains the tables; the
  program is `pipeline.job`.
- `small_work` and `warm_up` reduce the cost of the start and of the first batch. `archive_making` creates the archive
  of Spark's classes, from the workload of `class_training`.
- `sizing` estimates disk, memory and times for a given load.
- `phases` and `trigger_listener` measure how long the phases of a trigger of Spark take.
- `status` is the state as a file, `metrics` exports it to Prometheus, `job_log` writes the log events.
"""
