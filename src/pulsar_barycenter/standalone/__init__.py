"""A whole cluster on one machine, as processes of one parent.

`cluster` starts the brokers and the pipeline, starts again what ends by itself, and ends all in order; `process` is one
of these children, and `parent_watch` keeps it from outliving its parent. `progress` is where the start is shown,
`ready` what is printed once a broker or the cluster serves, `restarts` the note that the parent leaves while it starts
the pipeline again, `interruptible` work that a signal ends. `data_directory` says what lies where and keeps a second
cluster off the same folder; `ephemeral` is a folder for one run, which `folder_remover` removes also after a kill.
`scheduling` is for a broker's process: how soon its threads run again. `errors` are for the person who started it.

It knows its children by their commands, broker.conf and log files only, and imports nothing of a broker or of Spark.
"""
