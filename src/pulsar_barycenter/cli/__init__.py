"""The `barycenter` program. A command parses its options, calls another package, and prints the result.

Commands decide, collect and compute nothing themselves. `main` lists them; a command is imported only when it runs, so
that it starts fast and needs only its own libraries. The folders group commands by purpose:

- `run` starts processes: a cluster, one broker, the demo.
- `ask` shows the state of a cluster and explains decisions; `operate` moves bundles and drains brokers; `balance`
  balances a cluster from outside; `admin` has the commands of pulsar-admin.
- `watch` shows a cluster from outside on the dashboard.
- `record` fills a data folder with load reports, recorded or synthetic; `pipeline` turns them into tables; `history`
  queries these tables; `replay` tries strategies on load in virtual time and recommends one.
- `ledger` checks, repairs and migrates messages; `tokens` creates keys and tokens for clients.

Shared code: `asking` (address and credentials of a cluster), `folders` (file permissions), `moments` (times and spans
in options), `numbers` (finite numbers in options), `formats` (the choice of JSON), `groups` (help texts). `failure`
ends a command with an error, `interrupt` ends it after a signal, and `extras` names the extra that installs a missing
library.
"""
