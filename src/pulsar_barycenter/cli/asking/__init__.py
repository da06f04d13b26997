"""Whom commands ask, and as whom: what all commands that ask brokers have in common.

`options` are those of the command line by which each command says it otherwise than `client.conf` does, which
`admin.client_conf` reads. `client` makes the client of both.
"""
