"""What Prometheus reads at `/metrics`.

`endpoint` answers, and reads off what the parts of a broker know; `topic_figures` reads topics, subscriptions and
clients off; `catalogue` names all of it, by Pulsar's names where it has one, and says what each is; `text` writes it
down. The figures that load managers and `broker.instruments` keep are Prometheus' own objects, described there.
"""
