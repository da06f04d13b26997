"""Changes of partitioned topics: all owners of partitions agree, or nothing changes; what is decided is completed.

    none ──begin──▶ ASKING ──all agree──▶ DOING ──all partitions done──▶ none
                      │ refused, no answer, abandoned
                      ▼
                     none

- `plan` decides: which owners are asked, what the answers amount to, what is left of the record, whether a change was
  abandoned.
- `change_records` writes the topic's record by compare-and-set, and keeps a list of changes under way.
- `partition_owner` is the part of the broker that owns a partition: it answers, and it carries out what was decided.
- `coordinator` is the part of the broker that got the request, and of those that complete what it has left.

While a change is under way, the owners of partitions keep out the clients that would make their answers untrue; these
get an error after which they try again. An owner that loads a partition reads the change from the store, so the next
owner keeps them out as well. Every step may be repeated.

Source: the steps of Pulsar's `PersistentTopicsBase`, which asks nobody first.
"""
