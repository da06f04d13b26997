"""Who asks: what a client shows as proof of who it is, and the role that this gives it.

Begin with `shown`, what a client shows and what comes of it, and with `authentication`, which asks the `providers`, one
for each way to prove who one is, and knows proxies, which speak for others. `own_proof` is what this broker shows to
others, `tls_ports` what its ports show and whom it trusts, and `tls_listener` listens by it. What comes of all is a
`principal`: each connection of the binary protocol and each HTTP request carries one.

How proofs are made and judged is `pulsar_barycenter.credentials`; what a role may do, `authorization`.
"""
