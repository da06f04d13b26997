"""Strategies on a real cluster, with the load of traces: how even the brokers are, what it costs, what clients see.

Time passes `FASTER` times as fast as in the traces. Every interval of measuring, reporting and shedding is that
much shorter, so a strategy sees the trace as it would see it live; everything else is at its default. What a broker can
carry is a stated network limit, because the brokers share the processors of one machine.

`loads` cuts the load of a run out of the traces; `systems` has the strategies and runs a cluster of each; `watch`
follows the owners of bundles; `figures` makes figures of a run; `__main__` takes turns over the strategies and makes
the tables.
"""
