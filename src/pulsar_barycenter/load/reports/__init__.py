"""Load reports of brokers and the averages made of them: the records in the metadata store, the log and the topics.

A report is a measurement of one moment, and load varies from moment to moment, so decisions use averages over many
reports. The same averages are computed in three places (a live leader, the Spark batch, the Spark stream) and must
agree exactly, so their definition exists once, in `windows`.

Start with `load_report`: the report of the modular load manager, and the records of averages. Then `windows`, the short
and the long window. `simple_load_report` (with `simple_report_rule`: when it is written) and `extensible_reports` are
the reports of the other load managers. `weights` has the weights of resources, `publication` the document that the
pipeline hands to the leader. `load_over_time` combines what a leader remembers with tables, in steps of time.

Needs no numpy, because every broker reads and writes these. `snapshot` turns them into columns.
"""
