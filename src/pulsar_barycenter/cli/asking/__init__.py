"""The address and the credentials that all commands use to query brokers.

They come from `client.conf`, which `admin.client_conf` reads; the options of a command override it. `options` declares
these options. `client` creates the HTTP client from both.
"""
