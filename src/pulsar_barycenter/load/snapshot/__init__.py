"""The load of a cluster at one moment: the input of every decision.

A cluster may have a million bundles, and a leader decides every minute while it serves clients. So a snapshot is two
tables of columns, brokers and bundles, on which numpy computes, and it is rebuilt only where reports changed. It is
immutable and sorted by name, so that the same reports always give the same decisions.

`load_snapshot` defines the value. `builder` builds it from reports of the modular load manager, and later ones from the
changes; `simple_snapshot` and `extensible_snapshot` build it from reports of the other load managers. `drained` finds
the drained brokers, and removes brokers from a snapshot. `document` is the same as JSON together with the leader's
memory; `extensible_document` is its part for the extensible load manager. `reported` is what tables and pages show of
a document: `status`, `top` and the dashboard use it.

`pulsar_barycenter.snapshots` reads files of snapshots.
"""
