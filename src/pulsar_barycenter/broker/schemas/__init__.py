"""The schema registry: which schemas a topic has, and whether a client's schema fits them.

Problem: producers and consumers agree on the form of messages by schemas, which change over time. The broker keeps
every version of a topic's schema, and refuses a client whose schema would break others. Rules: a version never changes;
a schema that means the same as a version is that version; a new one is compared with earlier ones by the strategy of
the topic, and is added only if no other version was added since the comparison. Definitions come from clients, so a
definition is checked, and every check is bounded, before anything is stored.

- Pure: `schema` has a schema and its types; `validation` checks a definition; `compatibility` compares two by a
  strategy; `rules` are those of a topic; `bounds` has all limits. `avro` reads and compares Avro schemas, with which
  JSON and PROTOBUF schemas are defined too; `key_value` and `native_protobuf` read the other kinds of definitions.
- Stored: `schema_records` reads and writes the keys in the metadata store; `schema_registry` adds, reads and deletes
  versions.
- `errors`: why a schema is refused.

Which rules a topic has is decided in `namespaces`; when a client's schema is checked, in `wire.admission`.
Source: Pulsar's `SchemaRegistryServiceImpl`.
"""
