"""How the entries of a topic reach the consumers of a subscription.

`types`, `sticky_keys` (Key_Shared), `failover_choice` and `turns` (Shared) say which consumer is due;
`persistent_subscription` joins a cursor of the ledger with one dispatcher of the type that its consumers want. Of the
dispatchers read `dispatch` first (reading ahead), then `single_active_dispatch` (Exclusive, Failover) and what
`compacted_dispatch` adds to it, `shared_dispatch` (Shared: redelivery, delay) and what `key_shared_dispatch` adds to
that; `source` is what they ask of their subscription. `non_persistent_subscription` needs `turns`, `sticky_keys` and
`failover_choice` alone.

What is acknowledged is remembered by the cursor in `ledger`; topics create, find and delete subscriptions.
"""
