"""Finds the problems of a cluster, running or stopped, and says how to repair each.

Problem. Each broker sees a part of the state: its caches, its settings, its view of the leader. Many faults only show
when these parts are compared with each other and with the metadata store.

Rules. Reading and judging are separate. `reading` queries every broker, reads the metadata store, and returns one plain
value, the `picture`. `checks` are pure functions from a picture to a `finding`. `catalogue` lists and runs the checks;
a new check is one function, one row there, and a section of docs/doctor.md. Data that could not be read is reported as
not checked, never as healthy. Nothing here changes a cluster.
"""
