"""Answers look-ups: which broker serves a topic. Also unloads and splits bundles on request.

Problem: many clients look the same bundles up at once, above all after a broker failed. A client whose look-up is
refused waits longer after each refusal. So a look-up that cannot be answered yet is held, and all look-ups of a bundle
share one search for its owner.

- `service` answers look-ups of the binary protocol and of HTTP: from the cache without waiting, else by a search.
- `shared_searches` makes attempts until one succeeds; all look-ups of a bundle that wait share one search.
- One attempt of a search finds the owner of a bundle, or the broker that should own it, or the broker that may decide
  this: `owner_search` if bundles are owned by locks, `channel_search` if by records in the ownership channel.
- `refusing_brokers` knows brokers that refuse connections, so that no answer leads to a dead broker.
- `load_manager_migration`: while a cluster changes its load manager, it sends clients to brokers with the new one.
- `namespace_service` unloads, splits and deletes bundles, and hands all bundles over when the broker stops.

`ownership` takes the lock; the load manager chooses the broker.
"""
