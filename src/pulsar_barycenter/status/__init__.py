"""How a cluster fares: who leads, what each broker and bundle carries, and the worst that the doctor finds.

`cluster_status` makes it of a picture that the doctor takes, and of what he finds there; `board` makes rows of what the
leader decides upon, `broker_tables` the tables of Pulsar's `monitor-brokers`, and `settings` says which value is in
force on which broker. Asking brokers, what is wrong in detail, and the mend are left to `doctor`.
"""
