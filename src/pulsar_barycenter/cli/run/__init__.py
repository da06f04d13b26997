"""The commands that start processes and run until they are stopped.

`standalone` runs a cluster on this machine, `broker` runs one broker, `demo` runs a cluster with load and writes a
report. The package `standalone` manages the processes and the data folder; `run` assembles a broker.
"""
