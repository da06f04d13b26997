"""What the store holds of clusters, tenants, namespaces and topics, in Pulsar's paths and JSON.

`policies` has the records as types and `records` reads and writes them, keeping fields that nobody here knows;
`resources` brings all of them together with the rules by which topics come into being, which the registry asks for as
`topic_policies`. `partitioned_changes` are the changes that a partitioned topic's record keeps until all of its
partitions are changed. `boundaries` and `bundle_cache` are about the bundles of a namespace: how they are stored, and
what this broker knows of them without asking. `split_boundaries` writes those of a split, and knows afterwards whether
they were written. `cluster_policies` watches what binds placement: isolation policies, failure domains, anti-affinity
groups. `cluster_metadata` writes the first records of a new cluster, and `indispensable` says what nobody may delete.

Nothing here knows who owns a bundle, or whether a topic is loaded.
"""
