"""The running broker: it owns bundles, serves their topics to clients, and takes its part in balancing the cluster.

`broker` wires everything together and tells the order of start and stop; `control_plane` is the part of it that
coordinates, without topics and sockets, and `control` has what it is made of. They know the chapters, no chapter knows
them but `rest`. `instruments` is what is counted and timed everywhere, for Prometheus. From the ground up: `access`
(who a client is), `cluster` (who is there, who leads), `system_topics` (what brokers tell each other in topics that the
leader serves), `namespaces` (what is stored of them), `authorization` (what a client may), `ownership` (which bundles
are ours), `load_manager` (where bundles shall be), `lookup` (where a client is sent), then the data plane: `clients`,
`compaction`, `subscriptions`, `topics`, `partition_changes` (changes that all owners of a topic's partitions make, or
none), `wire`. `rest` is the admin API over all of it.

What a broker does not know itself it asks of its `environment`: time, chance, the store, the disks, the other brokers.
All chapters wait for `changes`, do `periodic` and `background` work and raise `errors` alike; what strangers can have
them log goes through `bounded_log`, and `start_errors` say why a broker did not start. `data_watch` looks whether its
files are still there. How to balance is decided in `pulsar_barycenter.load`, how entries become durable in
`pulsar_barycenter.ledger`.
"""
