"""Compares Barycenter with Apache Pulsar on the same bookies and the same ZooKeeper, in turns.

`systems` starts the store and both brokers on it, and a broker of Barycenter that keeps its messages in files. Their
ensemble settings are the same. `loads` are the rows that only brokers on a shared store have: topics that are loaded,
and moves between two brokers. The rows of messages are those of `benchmarks.pulsar`; `__main__` makes the tables.
"""
