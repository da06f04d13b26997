"""The load of a cluster at one moment: what every strategy decides upon.

`load_snapshot` is the value, brokers and bundles as columns sorted by name; `builder` makes one of reports, and the
next one of what changed; `simple_snapshot` and `extensible_snapshot` make it of the other load managers' reports.
`drained` says which of its brokers are drained, and what it is without them. `document` is the same as JSON, with all
that a leader remembers (`extensible_document` its part for that manager).

Files of snapshots are read in `pulsar_barycenter.snapshots`.
"""
