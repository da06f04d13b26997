"""Names of tenants, namespaces and topics, and the bundles to which topics belong.

Problem. Every broker must compute the same owner for a topic from its name alone, and must agree with Pulsar's clients
and tools on every character.

Rules. A name has one canonical text. A topic's hash is the CRC-32 of that text. The bundles of a namespace cover the
whole hash range without gaps at every version, and a split only inserts boundaries. Objects are values: they are
validated when they are created, are compared by their text, and know no store and no broker.

Read `namespace` and `topic` (parsing, canonical form, hash), then `bundle`, a range of hashes, and `bundles`, all
bundles of a namespace. `internal_topics` names the topics that the leader serves; `counted` writes a number with
its noun.
"""
