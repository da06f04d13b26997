"""The extensible load manager: every broker assigns and splits, the leader unloads to a known destination.

Each broker knows the owners from the ownership channel (`broker.ownership.channel`) and the loads from two topics. So
it can assign a bundle without the leader, and only shedding needs one broker that decides.

- `extensible_load_manager` is the load manager; read it first.
- `load_stores` are the two topics, `reporters` publishes this broker's load in them, and `load_data` collects what is
  known from them and from the registrations.
- `deciding` calls the pure functions of `load`. It needs numpy, and is imported at this broker's first decision.
  `assigning` is used without numpy: it only assigns. Both work with `deciding_parts`.
- `metrics` are the metrics, under Pulsar's names.
"""
