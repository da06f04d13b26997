"""Reads, creates and verifies credentials: keys, tokens, passwords, certificates.

Problem. Brokers verify the credentials of clients, and present their own to other brokers; so do the commands of an
operator. All of them parse input that an attacker may have written, and none of them may reveal a secret.

Rules. Sizes are limited before anything is parsed. A token never chooses the key or the algorithms with which it is
verified. Secrets are not part of a `repr` or of an error message.

`key_material` reads what a key of broker.conf refers to. `client_authentication` is what a client presents to a broker;
the client may be another broker or a command. `client_credentials` requests tokens for it from `issuers`, by
`issuer_http`. `tls` creates TLS contexts from PEM files, and `authorities` their trusted certificates. `token_keys` and
`tokens` create and verify JSON Web Tokens, `openid` verifies tokens of issuers by the keys that these publish, and
`passwords` verifies users' passwords. `bounds` has the maximum sizes. `broker.access` decides who has to present what,
and when.
"""
