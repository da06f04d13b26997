"""Runs one broker process, and configures its log.

`broker_process` assembles a broker with a real store, disk, clock and network, and runs it until it is stopped.
`ledger_storages` opens the ledgers, in files or on bookies, to which connections are made as `bookie_security` says;
`broker_folders` checks the data folder first. `process_log` configures the log of the process and of the libraries that
it uses. `counters` names the numbers that brokers get from their metadata store.

`standalone` runs the processes of a whole cluster, `broker` has the parts of a broker, and `cli` the options and exit
codes.
"""
