"""Whom commands ask, and as whom: what all commands that ask brokers have in common.

`client_conf` reads where a cluster is and what is shown to it, as Pulsar's own tools do. `options` are those of the
command line by which each command says it otherwise. `client` makes the client of both.
"""
