"""Delivers the entries of a topic to the consumers of its subscriptions.

Problem: the type of a subscription decides which consumer gets an entry. Delivery must not read more than the consumers
can take, must deliver again what a consumer did not acknowledge, and must never stop when there is something to send.

Shape: a subscription has a cursor, which stores what is acknowledged, and a dispatcher, which reads ahead and sends.
The type that the consumers request selects the dispatcher. `dispatch` is called after every event that may allow more
to be sent; it sends what it can and returns. So no event is lost, and nothing waits in a loop of its own.

- Which consumer is next: `types` has the types; `turns` is the order for Shared; `sticky_keys` maps keys to consumers
  for Key_Shared; `failover_choice` selects the active consumer for Failover.
- `persistent_subscription` joins cursor and dispatcher. Read the dispatchers in this order: `dispatch` (reads ahead,
  base of all), `single_active_dispatch` (Exclusive, Failover), `compacted_dispatch` (the same on a compacted topic),
  `shared_dispatch` (Shared: redelivery, delayed messages), `key_shared_dispatch` (the same by key). `source` is the
  interface of the subscription that they use, `parts` decides what they send of a batch that is partly acknowledged.
- `cursor_moves` moves cursors for operators: it skips entries, clears the backlog, expires old entries. A time to live
  (TTL) expires entries by the same rule.
- `non_persistent_subscription` stores nothing, and uses only `turns`, `sticky_keys` and `failover_choice`.

The cursor itself is in `ledger`. Topics create, find and delete subscriptions.
"""
