"""The ownership of bundles with the extensible load manager: a replicated state machine, one record per bundle.

All brokers read the same records in the same order, from a compacted topic or from the metadata store. Any broker may
publish a record without asking the others. So two rules make them agree: which record replaces which (`conflicts`), and
what a broker must do in which state (`duties`). Brokers fail in the middle of a change, so the leader repairs records
that make no progress.

- `service_unit_state`: the states, the record, and the transitions. Read it first.
- `conflicts`: the rule by which all readers of the same records keep the same ones.
- `duties`: what a broker has to do about a record.
- `events`: the records of each change.
- `repairs`: what the leader repairs if a broker is lost or does not act.
- `stability`: how far the leader trusts the metadata store before it treats a broker as lost.
- `report_tombstones`: when a broker withdraws its load reports.

Bundles are called service units here, as in Pulsar's names. Nothing here waits, sends or reads a clock:
`broker.ownership.channel` reads and publishes the records and carries out the duties.
"""
