"""What stands beside a running cluster, Apache Pulsar's or our own: it records its load, and asks what it decides.

`collector` asks every broker in a round and appends what they report to a load-report log, `collecting` makes round
after round until it is ended; `answers` says in a sentence
why a broker gave nothing, `addresses` where it is reached. `extensible_topics` follows what brokers of the extensible
load manager publish instead of reports, `ownership_topic` reads who owns what, and `collected_snapshot` puts both
together. `report_numbers` gives reports the numbers by which the pipeline counts each once, across restarts.

`running_cluster` asks for what the leader decides upon and for the decisions of all brokers, `topic_names` in which
bundles topics are.

The requests are sent by `admin`. Nothing here changes a cluster.
"""
