"""`format("pulsar")`: Pulsar topics as Spark tables and streams.

Read `options` (what may be asked), `positions` (where reading stands), `rows` (messages as Arrow batches), `topics`
(what is asked of the cluster) and `data_source` (what Spark calls). Knows nothing of load reports; a stream of them is
one of its uses, see `parsing.report_lines`.
"""

from pulsar_barycenter.pipeline.pulsar_source.data_source import PulsarDataSource

__all__ = ["PulsarDataSource"]
