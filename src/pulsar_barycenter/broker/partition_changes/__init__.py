"""Changes of partitioned topics: the owners of all partitions agree, or nothing changes.

    none ──begin──▶ ASKING ──all agree──▶ DOING ──all partitions done──▶ none
                      │ refused, no answer, abandoned
                      ▼
                     none

Problem: the partitions have different owners, and each of them may refuse a change or fail. Rule: first all owners are
asked; then the change is decided by one write of the topic's record; a decided change is always completed.

- `plan` decides, without I/O: which owners are asked, what their answers mean, how the record changes, and whether a
  change was abandoned.
- `change_records` writes the topic's record by compare-and-set, and keeps a list of the changes in progress.
- `partition_owner` is the part of a partition's owner: it answers, and carries out what was decided.
- `coordinator` is the part of the broker that got the request, and of brokers that complete abandoned changes.
- `errors` are the errors of a request.

While a change is in progress, the owners of partitions refuse clients that would invalidate their answers; such a
client gets an error and tries again. An owner that loads a partition reads the change from the store, so the next owner
refuses them, too. Every step may be repeated.

Source: the steps of Pulsar's `PersistentTopicsBase`, which does not ask the owners first.
"""
