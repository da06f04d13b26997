"""A client for the cluster's system topics: publish, read, and keep a table of the newest value of each key.

Brokers exchange ownership records and load in topics that one of them serves. Each broker is a client of that one; the
broker that serves a topic is a client of itself. This package knows the protocol, but neither topics nor the wire
server.

Problem: the owner of the topics may change at any time. Publishers and readers must find the new owner by themselves,
and for the code that uses them, no message may be lost, repeated or out of order.

- `client` creates publishers, readers and views; they share one `connection`.
- `attachment` is the base of publisher and reader: it stays attached to the owner, and tries again after a back-off.
- `publisher` sends each message again until it has a receipt. `reader` delivers every message in order.
- `table_view` is a table that a reader fills and a publisher writes to.
- `entries` encodes and decodes messages, with `compression`; `repeats` detects messages that were stored twice.
- `settings` has times and limits, `errors` the errors.
"""
