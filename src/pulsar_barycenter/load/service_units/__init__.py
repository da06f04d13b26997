"""The ownership of bundles as the extensible load manager keeps it: a record of each, which goes through states.

Read `service_unit_state` first: the states, the record that says which one a bundle is in, and which state may follow
which. `conflicts` is the rule by which everybody who reads the same records in the same order keeps the same ones.
`duties` says what a broker has to do about a record, `events` which records each change consists of, and `repairs` what
the leader mends when a broker is lost or somebody does not do his part. `stability` is how far the leader trusts the
metadata store before it takes a broker for lost, and `report_tombstones` when a broker takes its load reports back.

Bundles are called service units here, as in Pulsar's names. Nothing here waits, sends or knows the time: a shell
(`broker.ownership.channel`) reads and publishes the records and has the duties done.
"""
