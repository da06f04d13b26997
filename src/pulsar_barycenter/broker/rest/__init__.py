"""The admin API over HTTP: Pulsar's resources and paths, and a few of Barycenter's own under /barycenter.

`server` puts `app` on a socket; the application has one class a resource, in the file of its name, each with its
routes. They are given the parts of a running broker as `services`, read what was asked with `requests`, and raise:
`errors` is the one place where an exception becomes a status and a reason, `streamed` the one where an answer is sent
while it is made, and `server_log` bounds what aiohttp logs.

Before a resource sees a request, `admission` refuses what nobody may send, `principals` says who asks, and `rights` has
a row for every route that says what is needed. `leader_requests` has the leader answer what it alone may, `ownership`
decides whether a request is for this broker or is redirected, and `relay` follows redirects for pages, which cannot.

`lookup` is the HTTP front end of the lookup service, `metrics` the Prometheus endpoint, `openapi` the interface told of
itself, `dashboard` the pages for people. Nothing is kept here: state lives in the chapters that these files ask.
"""
