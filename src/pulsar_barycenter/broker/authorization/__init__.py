"""Decides whether a role may do what its request asks for.

The decision compares three values: what the request needs, who sends it (a `Principal`), and what was granted. It is a
pure function, so that the REST API, the binary protocol and the tests use the same rules, and each decision has a
reason.

- `needs`: what a request can need: a right on a tenant, a namespace or a topic, or to be a super user.
- `grants`: the permissions in a namespace's policies and its tenant's record, in Pulsar's JSON; functions that grant
  and revoke.
- `rules`: the decision, without I/O: a verdict with its reason.
- `authorizer`: reads the grants and applies the rules, for each request.
- `topic_grants` removes the grants on a deleted topic. `errors` has the errors of a refused request, and `refusals`
  logs these at a bounded rate.

What each request needs is in `wire/admission/rights.py` for the binary protocol, and for HTTP in the rows of
`admin.routes`, which `rest/rights.py` reads. Source: Pulsar's `AuthorizationService` and `PulsarAuthorizationProvider`.
"""
