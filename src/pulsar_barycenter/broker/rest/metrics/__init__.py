"""The Prometheus endpoint `/metrics`.

Problem: a broker may have tens of thousands of topics, and reading them must not delay messages. So `endpoint` reads a
few topics at a time on the event loop, and generates the text of the answer in a thread.

- `catalogue` has the name and the help text of each metric; the name is Pulsar's if Pulsar has the metric.
- `topic_metrics` reads topics, subscriptions, consumers and producers.
- `text` writes samples in the two text formats.

The metrics of load managers and of `broker.instruments` are objects of the Prometheus client library, described there.
"""
