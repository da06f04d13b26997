"""The process that runs the pipeline, from its options to what it tells of itself.

Read `job_options` (what a person chooses), `pipeline_job` (queries started, stopped and tried again, tables kept in
order), `warm_up` (a quick first batch), `status` and `metrics` (how it fares) and `job_log` (its events). The program
is `pipeline.job`.
"""
