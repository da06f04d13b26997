"""`barycenter pipeline`: runs the load pipeline, shows its state, and checks and recomputes its tables.

`command` is the group; it imports its commands `run`, `status`, `sizing`, `prepare`, `check`, `convert`, `files`,
`delete_tenant` and `refold` when they run.
`event_lines` formats the log events of a running job for a terminal. `data_folder` opens a data folder, local or on a
storage that only Spark reaches. The package `pipeline` has the job, its tables and the computation.
"""
