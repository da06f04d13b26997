"""The `barycenter` program, in folders by what a person does.

`main` lists the commands; each is imported only when it runs. `run` starts processes: a cluster, one broker, the demo.
`ask` says how a cluster fares, what its leader would do, and why; `operate` has bundles moved and brokers emptied,
`admin` has the words of pulsar-admin. `record` fills a data folder with load reports, of a running cluster or a made-up
one; `pipeline` makes tables of what was recorded, and `history` asks these. `replay` tries strategies on load in
virtual time and advises among them. `ledger` checks and repairs messages, `tokens` makes what clients show to be known.

They share how brokers are asked (`asking`), which folder is which (`folders`), moments as people type them (`moments`),
how JSON is asked for (`formats`) and what the help of a group tells (`groups`). A command that cannot go on ends by
`failure`, one that is told to end by `interrupt`, and one that lacks a library by `extras`, which names the extra.

A command reads its options, hands values to another room, and prints what comes back; what is decided, collected or
computed is decided, collected and computed there.
"""
