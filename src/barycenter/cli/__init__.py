"""The `barycenter` program, in folders by what a person does.

`main` lists the commands; each is imported only when it runs. `run` starts processes: a cluster, one broker, the demo.
`record` fills a data folder with load reports, of a running cluster or a made-up one. `ask` says what a leader would do
and why, `operate` has bundles moved, `admin` has the words of pulsar-admin. `pipeline` makes tables of what was
recorded, and `history` asks these. `replay` tries strategies on load in virtual time, `advise` chooses among them.
`ledger` checks and repairs messages, `doctor` tells what is wrong with a cluster.

`tokens` makes what clients show to be known.

Shared by them are the client by which brokers are asked (`asking`), which folder is which (`folders`), how a command
ends that cannot go on (`failure`), moments as people type them (`moments`), what they may have meant (`suggestions`),
how JSON is asked for (`formats`), what the help of a group tells (`groups`), and what a terminal shows meanwhile
(`progress`) and in the end (`terminal`).

A command reads its options, hands values to another room, and prints what comes back; what is decided, collected or
computed is decided, collected and computed there.
"""
