"""The admin API over HTTP: Pulsar's resources and paths, and some of Barycenter's own under /barycenter.

Problem: more than a hundred routes need the same checks in one order, and each error needs one status code. Rule: a
route is a row of the route table `admin.routes`, and a handler only reads its request, calls the broker and raises
errors. Handlers have no state except caches; state is in the packages that they call.

A request goes through these modules:

- `server` binds `app` to a socket; `server_log` bounds what aiohttp logs.
- `request_ids`, `audit` and `errors` are around all others: they set the request id, write the audit log, and convert
  every exception to a status and a reason.
- `relay` follows redirects for pages, which cannot. `admission` refuses invalid requests, `principals` authenticates
  the client, `rights` checks the right in the row, and `leader_requests` redirects what only the leader may write.
- The row names a method of a class, and `bodies` has the types of request bodies. The handlers get the parts of the
  broker as `services`, read requests with `requests` and `body_fields`, and decide with `ownership` whether this broker
  answers or redirects. `streamed` sends an answer piece by piece.

Handlers that concern messages find their topic with `persistent_topics`: `cursors` moves subscriptions, `messages`
shows messages, with `message_headers`; `termination` ends topics;
`backlogs` clears namespaces and truncates topics.

Policies: `policy_kinds` has what is valid for each, `topic_policies` those of single topics, `namespace_rules` limits
and rates of namespaces.

Some handlers are packages: `metrics` is the Prometheus endpoint, `dashboard` serves the pages. `lookup` is the HTTP
form of the lookup service, `openapi` describes the interface.
"""
