"""`format("pulsar")`: Pulsar topics as Spark tables and streams.

Problem. A Spark query that restarts from its checkpoint must read each message exactly once, but the Pulsar client has
no call for the last message of a topic. Rule: an offset is the position of the last message read, per topic or
partition, and a batch reads the messages between two offsets.

- `options` checks the options.
- `positions` has positions, their order and their JSON.
- `rows` converts messages to Arrow batches.
- `topics` reads topics through the Pulsar client.
- `data_source` implements Spark's interface.

The package does not depend on load reports; `parsing.report_lines` is one of its uses.
"""

from pulsar_barycenter.pipeline.pulsar_source.data_source import PulsarDataSource

__all__ = ["PulsarDataSource"]
