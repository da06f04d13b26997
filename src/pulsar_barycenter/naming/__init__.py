"""Names and where they fall: tenants, namespaces, topics, and the bundles that share out a namespace's topics.

Read `namespace` and `topic` (parsing, canonical form, the hash that places a topic), then `bundle`, a range of hashes,
and `bundles`, which tile the whole range at every version and are split by arithmetic alone. `internal_topics` names
those that the leader serves; `counted` writes a number with its noun. Values only: they are checked when they are
made, compared by their text, and know no store and no broker.
"""
