"""The methods of authentication, one provider for each (Pulsar's word).

`provider` is the interface. `tls_provider` reads the name in a client certificate; `basic_provider` checks users and
passwords, in threads; `token_provider` checks tokens that this cluster's own key signed. `openid_provider` checks
access tokens of other issuers and caches their keys (`issuer_keys`). `bearer_provider` combines the last two, because
both kinds of token arrive in the same header. `catalogue` finds the providers that the configuration names, and loads
only these.
"""
