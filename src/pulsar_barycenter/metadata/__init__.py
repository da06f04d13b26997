"""The state that brokers share: versioned keys, ephemeral keys that expire with their session, notifications.

Problem. Brokers have to agree on owners, leaders and policies, although any of them may be slow, paused or cut off.
Clusters bring their own store for that, and stores differ in their guarantees.

Rules. One interface states the guarantees, and one test suite checks every backend against them. A write states the
version that it replaces. A session proves that a process is alive; the ephemeral keys of a session are deleted when the
session ends. A client stops to rely on its session before the store may give the session's keys to another client. If a
write gets no answer, its effect is unknown, and the error says so.

Read `store`, the interface with its guarantees, and `errors`. `cache` keeps decoded values (`codec`) until a
notification says that they changed. `coordination` builds locks, elections and counters on any store. With
`leader_writes` only the leader writes and grants sessions, so the store needs no more than persistent keys and one
ephemeral key for the leader.

The backends: `memory` for tests and simulation, `sqlite` for the processes of one machine, `zookeeper`, `etcd` and
`oxia` for many machines; the last two use `grpc_client`. They share `store_client`, `listeners`, `conditions` (the
version rules), the state machine of `session`, and `key_locks`, which serializes the operations on one key.
`settings_file` reads files that a store's settings name, `timed_store` measures the duration of operations, `clock` is
wall-clock time, `files` detects files that were removed while they were open.
`open` selects the backend by URL.

The names of the keys and the meaning of their values are defined by the packages that write them, mostly by `broker`.
"""
