"""Questions to a running cluster, or to the files of one, that several brokers or sources answer together.

`examination` looks at a cluster as the doctor does, twice at what may have been on its way; `monitored` reads the loads
that brokers report, from brokers or from a store; `topics` asks for the topics of bundles, with their stats.

`explanation` says why a topic, a bundle or a broker is as it is: the decisions about it, and what would be decided now.
`past_decisions` asks for the decisions that were made by a time, and `past_state` says what they mean.
`history_rows` prints the rows of the recorded history.

The caller passes what makes a client (`admin.client.NewClient`), as it knows the credentials.
"""
