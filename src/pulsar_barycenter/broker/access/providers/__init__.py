"""The ways to prove who one is, each a provider as Pulsar calls it.

Begin with `provider`, what each has to answer. `tls_provider` takes the name in a certificate, `basic_provider` users
and passwords, which it checks in threads, `token_provider` tokens that this cluster's key signed, and `openid_provider`
those of issuers elsewhere, whose `issuer_keys` it keeps; `bearer_provider` is these two as one. `catalogue` finds those
that a configuration names, and loads no other.
"""
