"""The cluster's own topics as a broker uses them: publishing, following, and a table of the newest value of each key.

Begin with `client`, which makes the others: a `publisher`, a `reader`, and the `table_view` that a reader feeds and a
publisher writes to. Each of them is an `attachment`: it stays attached to the broker that serves the topics, whichever
that is, over the one `connection` that they all share, and tries again after a `back_off`. `entries` is what a message
is as bytes, with `compression`, and `repeats` tells what a publisher sent twice. `settings` are the times and bounds.

A broker is the client of another here, or of itself: it knows the protocol, and nothing of topics or the wire server.
"""
