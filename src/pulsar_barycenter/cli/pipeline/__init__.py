"""`barycenter pipeline`: `command` is the group; its commands `run`, `status`, `prepare`, `check`, `convert`, `files`,
`delete_tenant` and `refold` are imported when they run.

`event_lines` tells a person what the running job says in events; `data_folder` opens the files of a command, here or
where only Spark reaches. The job, its tables and their arithmetic are `pulsar_barycenter.pipeline`.
"""
