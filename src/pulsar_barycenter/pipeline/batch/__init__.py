"""Computes the tables of a whole history in one pass with Spark.

It is a second definition of what `stream` computes batch by batch.

From the logs:

- `windows` (a closed form of the averages), `broker_averages`, `ownership_history` and `balance_history` compute one
  table each. `whole_history` combines them.

From the table of samples, for long histories:

- `refold` computes the averages. `late_samples` handles bundles whose samples are not in order.

Results of both:

- `recorded` compares them with the tables that the stream wrote.
- `output` writes them so that all tables appear at once.
- `from_logs` does all this for a data directory. `check` compares a time range in both directions.

The commands are in `cli`.
"""
