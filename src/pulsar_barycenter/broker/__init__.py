"""A running broker: it owns bundles, serves their topics to clients, and takes part in balancing the cluster.

`broker` connects all parts, and starts and stops them in order. `control_plane` is the coordinating part of it, without
topics and sockets; `control` has what it is made of. These three import the other packages; of the other packages, only
`rest` imports them.

The packages, each of which may import those before it:

- `access`: which principal a client is. `cluster`: which brokers there are, and which one is the leader.
- `system_topics`: what brokers publish to each other in topics that the leader serves. `schemas`: which schemas a topic
  has. `namespaces`: stored records of namespaces. `topic_policies`: policies of single topics. `authorization`: what a
  client may do.
- `ownership`: which bundles this broker owns. `load_manager`: where bundles shall be. `lookup`: where a client is sent.
- The data plane: `clients`, `compaction`, `subscriptions`, `topics`, `partition_changes` (changes that the owners of
  all partitions of a topic make, or none), `wire`.
- `rest`: the admin API on all of it.

All packages use these modules:

- `environment`: what a broker gets from outside: time, randomness, the store, the disks, the other brokers.
- `changes` to wait for changes, `periodic` and `background` for tasks, `errors` for errors about topics.
- `bounded_log` for events that clients can cause, `instruments` for Prometheus metrics.
- `data_watch` checks that the data files are still there. `start_errors` are the reasons why a broker did not start.

`pulsar_barycenter.load` decides how to balance, and `pulsar_barycenter.ledger` makes entries durable.
"""
