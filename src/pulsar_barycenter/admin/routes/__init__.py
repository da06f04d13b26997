"""The route table: one row for each request that a broker's admin REST answers.

A row (`route`) has the method, the path, the right that the request requires (`rights`), the body, the parameters of
the query, the line of the reference page, and the name of the handler. These rows are the only place that states them:

- `broker.rest.app` registers the handlers, `broker.rest.rights` requires the rights, `broker.rest.leader_requests`
  redirects what only the leader may write;
- `broker.rest.openapi` makes the OpenAPI document, and two scripts the pages `docs/rest-api.md` and
  `docs/authorization.md`;
- commands of `cli.admin` send a row instead of a method and a path.

Rows are data: this package imports neither a web server nor a broker, so that commands start fast. The rows of one
class of handlers are a group; `clusters`, `tenants`, `namespaces`, `namespace_details`, `namespace_storage`,
`namespace_rules`, `auto_creation`, `permissions`, `resource_groups`, `resource_quotas`, `topics`, `topic_policies`,
`messages`, `schemas`, `brokers`, `bookies` and `lookup` are Pulsar's, `not_served` has Pulsar's requests that are
refused, `barycenter` has this project's own. `table` lists the groups in the order in which a server registers them.
"""
