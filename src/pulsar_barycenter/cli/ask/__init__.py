"""Questions to a cluster that change nothing, `config` apart: how it fares, what its leader would do, and why.

`status` tells how it fares on one screen, `top` follows it on the whole terminal (`screen`); `monitor_brokers`
prints the table that pulsar-perf has, of what `monitored` reads. `doctor` tells what is wrong, `config` shows the
settings in force and changes the dynamic ones. With `status` they share the `examination`, which looks twice at what
may have been on its way.

`decide` runs a round upon a snapshot, and `explain` says why a topic, bundle or broker is as it is, now or in the
`past`; `topic_names` asks a running cluster in which bundles topics are. `snapshot` keeps what a leader decides upon.
`running_cluster` asks for it by the admin REST, and `decision_tables` prints decisions for people and as JSON.

Reading snapshots, and the rounds upon them, are `pulsar_barycenter.snapshots`; the words of a reason come with it, from
`load.reasons`. What is looked at, and what it means, are `pulsar_barycenter.status` and `pulsar_barycenter.doctor`.
"""
