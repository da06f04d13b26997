"""One process of Barycenter: a broker put together and run, and how such a process logs.

`broker_process` makes a broker of a real store, disk, clock and network and runs it until it is stopped;
`broker_folders` checks the data folder first. `process_log` says how such a process, and what its libraries say, is
logged.

The processes of a whole cluster are `standalone`, a broker's parts `broker`; options and exit codes are `cli`.
"""
