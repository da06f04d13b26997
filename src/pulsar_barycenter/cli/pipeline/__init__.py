"""`barycenter pipeline`: `command` is the group; `run`, `status`, `check` and `refold` are its commands, imported when
they run.

`event_lines` tells a person what the running job says in events; `data_folder` opens the files of a command, here or
where only Spark reaches. The job, its tables and their arithmetic are `pulsar_barycenter.pipeline`.
"""
