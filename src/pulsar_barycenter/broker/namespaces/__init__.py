"""The records of clusters, tenants, namespaces and topics in the metadata store, with Pulsar's paths and JSON.

Other programs, above all Pulsar's tools, write the same records. Rules: an update keeps fields that this program does
not know; every update is a compare-and-set; a cached record may be old, so code that depends on the newest one reads it
again.

- Records: `policies` has their types; `records` reads and writes them; `resources` has all of them, and the rules for
  creating topics by use. `topic_policies` is the part of `resources` that the topic registry needs.
- Policies of topics: `own_policies` are those of a single topic, which replace its namespace's; `storage_policies`
  reads retention, expiry and backlog quotas from the policies, `topic_rules` everything else besides the limits;
  `topic_limits` has limits, expiry and quotas as values.
- Partitioned topics: `partitioned_changes` has the type of a change, which a topic's record contains until all
  partitions have made the change.
- Bundles: `boundaries` reads and writes the boundaries of a namespace; `bundle_cache` caches them; `split_boundaries`
  writes the boundaries of a split, and finds out whether they were written.
- `cluster_policies` watches the policies for the assignment of bundles: isolation policies, failure domains, drained
  brokers, anti-affinity groups.
- `cluster_metadata` writes the first records of a new cluster; `indispensable` knows the records that must not be
  deleted.

This package does not know which broker owns a bundle, nor which topics are loaded.
"""
