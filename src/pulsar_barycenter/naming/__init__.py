"""Names of tenants, namespaces and topics, and the bundles to which topics belong.

Problem. Every broker must compute the same owner for a topic from its name alone, and must agree with Pulsar's clients
and tools on every character.

Rules. A name has one canonical form, which is what is hashed. A topic's hash is the CRC-32 of that text. The bundles of
a namespace always cover the whole hash range without gaps. A split only adds boundaries. Objects are immutable values:
they are validated when they are created, and compared by their text.

Read `namespace` and `topic` (parsing, canonical form, hash), then `bundle`, a range of hashes, and `bundles`, all
bundles of a namespace. `internal_topics` names the topics that the leader serves; `counted` writes a number with
its noun.
"""
