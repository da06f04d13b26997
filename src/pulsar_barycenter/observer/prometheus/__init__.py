"""Converts Pulsar's metrics in a Prometheus to the load reports that `observer.collector` would have recorded.

Problem. A new user has weeks of metrics, and no load report. Metrics have the load of topics, not of bundles; the
broker of a topic is only the scrape target; and limits of hardware are not among them.

Rules. Only gauges are read, so a counter that starts again at zero changes nothing. The bundle of a topic follows from
the hash of its name and the present boundaries of its namespace. What metrics do not have is recorded as missing, never
guessed. The same answers give the same files: a step that is imported again has the same report numbers, and the
pipeline counts it once.

- Values: `series` has the metrics that are read, and the form of an answer.
- Input: `http_api` queries Prometheus, `export_files` reads its answers from files.
- Conversion: `placing` finds the bundle of a series, `window` adds the series of some steps, `reports` makes load
  reports of them and follows brokers and owners from step to step.
- Running: `progress` stores how far an import is, `importing` runs it.
"""
