"""Questions to a cluster that change nothing, `config` apart: how it fares, what its leader would do, and why.

`status` tells how it fares on one screen, `top` follows it on the whole terminal; `monitor_brokers` prints the table
that pulsar-perf has. `doctor` tells what is wrong, `config` shows the settings in force and changes the dynamic ones.

`decide` runs a round upon a snapshot, and `explain` says why a topic, bundle or broker is as it is, now or in the past.
`snapshot` keeps what a leader decides upon, and `decision_tables` prints decisions for people and as JSON.

The questions are `pulsar_barycenter.questions`; snapshots and the rounds upon them are
`pulsar_barycenter.snapshots`. The words of a reason come with it, from `load.reasons`.
"""
