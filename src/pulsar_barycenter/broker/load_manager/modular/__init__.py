"""The modular load manager: every broker computes averages (windows) of all load reports, and the leader decides on
them.

Every broker keeps these averages, so that a new leader can decide at once. The leader's part needs numpy, so a broker
imports it when it becomes leader.

- `modular_load_manager` is the load manager; `load_data` is what a broker knows of the cluster's load.
- `leader` has the leader's part: it assigns, sheds, splits and stores. `snapshots` makes its snapshots.
- `assigning` is the leader's part of a broker without numpy: it only assigns. Both work with `leader_parts`.
"""
