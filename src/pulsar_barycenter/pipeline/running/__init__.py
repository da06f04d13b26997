"""The process that runs the pipeline, from its options to what it tells of itself.

Read `job_options` (what a person chooses), `pipeline_job` (queries started, stopped and tried again, tables kept in
order), `small_work` and `warm_up` (a start and a first batch that cost little), `phases` and `trigger_listener` (how
long Spark's triggers take), `status` and `metrics` (how it fares) and `job_log` (its events). The program is
`pipeline.job`. `archive_making` makes the archive of Spark's classes, with the work of `class_training`.
"""
