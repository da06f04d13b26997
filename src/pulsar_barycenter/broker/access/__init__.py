"""Authenticates clients: checks their credentials and gives them a role.

A client connects by the binary protocol or by HTTP, directly or through a proxy. The result is the same for all: a
`principal`, which has the role of the connection and, behind a proxy, that of the client. Each connection and each HTTP
request carries one. What a role may do is decided later, in `authorization`.

Read `received_credentials` first: the credentials that a client sends, and the identity that they prove.
`authentication` selects a provider, which checks the credentials, and checks proxies. `providers` has one provider for
each authentication method: tokens, certificates, passwords, OpenID Connect. `broker_credentials` are those that this
broker sends to other brokers. `tls_ports` configures TLS for the ports of this broker and for its connections to
others, and `tls_listener` accepts TLS connections. `errors` has the error of a refused client.

`pulsar_barycenter.credentials` creates and verifies tokens, certificates and passwords.
"""
