"""What brokers agree on: versioned keys, ephemeral keys that die with their session, notifications.

Read `store`, the interface with its promises, and `errors`. `cache` keeps typed values (`codec`) until the store says
that they changed; `coordination` builds locks, elections and counters on any store. By `leased` a leader writes for all
and grants their sessions: of the store no more is asked than a key of the leader's.

The stores themselves: `memory` for units and simulation, `sqlite` for the processes of one machine, `zookeeper`, `etcd`
and `oxia` for those of many; the last two by `rpc`. They are made of `store_client`, `listeners`, `conditions`, the
state machine of `session`, and `serials`, which does one thing after the other to a key. `settings_file` reads what a
store's settings name, `timed_store` measures how long each takes to answer, `clock` is the time of day, `files` finds
files that were removed while they were open. `open` chooses by URL.

What the keys are called and what their values mean is left to those who write them, mostly the `broker`.
"""
