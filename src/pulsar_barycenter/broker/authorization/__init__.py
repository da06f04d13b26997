"""May they? What a request needs, the grants that are stored, and the rules that hold one against the other.

`needs` are what can be asked for: a right on a tenant, a namespace, a topic, or on the brokers themselves. `grants` are
what a namespace's policies and its tenant's record give to roles, in Pulsar's JSON, and how a grant is added and taken
away. `rules` is the decision, without I/O: a verdict with its reason. `authorizer` reads the grants and asks the rules
for each request that is served; `topic_grants` takes away those of a deleted topic; `refusals` logs refused
requests, at a bounded rate.

What a request needs is stated for the binary protocol in `wire/admission/rights.py`, for HTTP in the rows of
`admin.routes`, which `rest/rights.py` reads. Source: Pulsar's `AuthorizationService` and `PulsarAuthorizationProvider`.
"""
