"""The topics that this broker has in memory: taking messages in, and keeping account.

`registry` loads a topic under the term of its bundle, closes it before the term ends, and is the door for all who want
one; the `states` in between are a table. `departures` has the tasks in which topics leave, and `preparations` opens
those that are about to come from another broker.

`topic` is what both kinds share: producers, state, figures. `persistent_topic` appends to a managed ledger and answers
when entries are durable; `non_persistent_topic` passes them on and stores nothing. `limits` say how many may attach,
`producer_access` admits exclusive producers, `deduplication` drops what was sent twice, `write_room` remembers that the
disk was full, `stats` says it all in the admin API's words.

Delivery is the subscriptions' part, durability the ledger's; whether a topic may be served, ownership's.
"""
