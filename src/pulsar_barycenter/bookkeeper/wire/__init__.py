"""Converts bytes to packets of the bookies' protocol, version 2, and back. No I/O.

A packet is a u32 length and that number of bytes. Packets have no request id: an answer is matched by its operation,
ledger and entry. `packets` encodes requests and cuts a stream into answers. `opening_packets` starts TLS, by the only
request of version 3. `digests` builds and verifies what is stored of an entry: its numbers, a digest and the data. All
integers are big-endian.
"""
