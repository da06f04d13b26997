"""The admin API over HTTP: Pulsar's resources and paths, and a few of Barycenter's own under /barycenter.

`server` puts `app` on a socket; the application has one class a resource, in the file of its name, each with its
routes. They are given the parts of a running broker as `services`, read what was asked with `requests`, and raise:
`errors` is the one place where an exception becomes a status and a reason. `ownership` decides whether a request is for
this broker or is redirected. `lookup` is the HTTP front end of the lookup service, `metrics` the Prometheus endpoint.

Nothing is kept here: state lives in the chapters that these files ask.
"""
