"""The admin API over HTTP: Pulsar's resources and paths, and a few of Barycenter's own under /barycenter.

`server` puts `app` on a socket. The route table `admin.routes` has a row for each route; the row names the method that
answers it, of a class in the file of its name. These classes get the parts of a running broker as `services`, read
requests with `requests`, and raise: `errors` is the one place where an exception becomes a status and a reason,
`streamed` the one where an answer is sent while it is made, and `server_log` bounds what aiohttp logs. `bodies` are the
types of the bodies that rows name.

Before a handler gets a request, `admission` refuses what nobody may send, `principals` finds the caller, and `rights`
checks the right in the row. `leader_requests` redirects what only the leader may write, `ownership` decides whether a
request is for this broker or is redirected, and `relay` follows redirects for pages, which cannot.

`lookup` is the HTTP front end of the lookup service, `metrics` the Prometheus endpoint, `openapi` the description of
the interface, `dashboard` the pages for people. Nothing is kept here: state lives in the chapters that these files
call.
"""
