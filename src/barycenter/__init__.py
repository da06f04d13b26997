"""A Pulsar-compatible broker cluster that balances itself, with its load-data pipeline on Spark.

Each folder is a room, opened by its docstring, and imports earlier rooms only. In their order:

`naming`, `config`, `protocol`, `credentials`, `pages` know no other room: names and hashes, the keys of broker.conf,
Pulsar's frames, proofs of who somebody is, HTML pages. `metadata` is what brokers agree on, `load` what is decided
about load and why, `ledger` where messages lie. `logs` are the files that a cluster leaves behind, `admin` is how one
asks its REST. `broker` is one running broker, `pipeline` makes tables and averages of what brokers report.

People use these by the rest: `snapshots` are read from files to decide upon, `replay` tries strategies in virtual time,
`attach` records a cluster, `doctor` finds what is wrong with one, `status` shows it, `operations` move its bundles.
`standalone` and `demo` start whole clusters, and `cli` is the program, also as `python -m barycenter` (`__main__`).

Four journeys through the rooms, file by file, are in docs/architecture.md.
"""
