"""The checks, one file for what they look at: brokers, namespaces, ownership, settings, balance, ledgers.

Each takes a picture and yields what it found; none reads a clock, socket or file. A check that compares what was read
at different moments may be wrong about a cluster in motion; the catalogue marks it, and what it finds counts when a
second look finds it again.
"""
