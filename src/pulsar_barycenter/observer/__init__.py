"""Observes a running cluster of Barycenter or Apache Pulsar from outside: records its load, and reads its decisions.

Problem. Apache Pulsar keeps no history of its load, and its load managers publish load in different ways: the modular
and the simple one return reports on request, the extensible one publishes to topics. The pipeline and the replays need
one form for all, without duplicates.

- Recording: `collector` queries every broker in a round and appends the reports to a load-report log; `collecting` runs
  the rounds. `extensible_topics` reads the load topics, `ownership_topic` the owners of bundles; `collected_snapshot`
  combines them. `recorded_settings` keeps the settings that balancing uses, `recorded_policies` the rules of
  administrators, both by `recorded_lines`. `report_numbers` numbers reports across
  restarts, so that the pipeline counts each only once.
- Stored metrics: `prometheus` makes the same reports of metrics that Prometheus has.
- Queries: `running_cluster` reads the leader's snapshot and the decisions of all brokers; `topic_names` finds the
  bundles of topics.
- Shared: `answers` explains why a broker returned nothing, `addresses` finds the web address of a broker.

`admin` sends the requests. Nothing here changes a cluster.
"""
