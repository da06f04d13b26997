"""Proofs of who somebody is, as files and texts: keys, tokens, passwords, certificates.

`key_material` reads what a key of broker.conf points to. `presented` is what somebody shows to a broker, whether it is
another broker or the command of an operator; `client_credentials` obtains tokens for that from `issuers` elsewhere, by
`issuer_http`. `tls` makes of PEM files what connections go by, and `authorities` whom they trust. `token_keys` and
`tokens` make and judge JSON Web Tokens, `passwords` those of users, and `openid` judges tokens of issuers by the keys
that these publish; `bounds` is how large any may be. Who is asked for what, and when, is `broker.access`.
Nothing secret stands in what these say of themselves or of an error.
"""
