"""A whole cluster on one machine, as processes of one parent.

`cluster` starts the brokers and the pipeline, starts again what ends by itself, and ends all in order; `process` is one
of these children, and `parent_watch` keeps it from outliving its parent. `data_directory` says what lies where and
keeps a second cluster off the same folder. `scheduling` is for a broker's process: how soon its threads run again.
`errors` are for the person who started it.

It knows its children by their commands, broker.conf and log files only, and imports nothing of a broker or of Spark.
"""
