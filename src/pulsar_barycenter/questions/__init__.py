"""Queries that need the answers of several brokers, or of brokers and files, and combine them.

- State: `examination` reads a cluster for the doctor, a second time if the findings may be an effect of a change in
  progress. `monitored` reads the load reports of brokers, from the brokers or from a metadata store. `topics` reads the
  topics of bundles, with their stats.
- Explanations: `explanation` collects the decisions about a topic, a bundle or a broker, and the decisions that would
  be made now. `past_decisions` reads the decisions up to a time; `past_state` derives the state at that time from them.
- Output: `history_rows` prints rows of the recorded history.

The caller passes a function that creates a client (`admin.client.NewClient`), because it has the credentials.
"""
