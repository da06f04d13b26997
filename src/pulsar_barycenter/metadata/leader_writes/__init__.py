"""Sessions that the leader grants, over a store that needs only persistent keys and guarded writes.

Problem. Each broker's session costs a metadata store heartbeats and expiry checks, and every broker's write is a
request of its own. Here one broker, the leader, writes for all, and grants and ends the sessions of the others.

Modules. `leased_values` marks a stored key with the session that it is leased to. `session_records` is what the leader
stores of each session. `write_requests` is what a broker sends to the leader. `session_table` decides when a session
has ended, without clock or I/O. `leader_writer` is the leader's side during one term; `session_lease` tells a broker
whether its session is alive; `leased_store` is the metadata store of a broker that lets the leader write.

Claim: before a key of a session is removed, or given to another session, the session's broker has treated the session
as lost.
Proof: a broker relies on its session until 5/6 of a lease after it sent the last read that found its record unmarked.
Only a leader of the current epoch marks a record as ended, because the store checks the epoch in the same step. After
the leader knows that the mark is stored, it removes nothing for a whole lease; if broker and leader have different
leases, the longer one counts. The broker's last read that found no mark was answered before the mark was stored, so it
was sent before that. The rates of two clocks may differ by a fifth. A session also ends when its broker reports that it
does not use it any more.

A write whose outcome is unknown may still take effect after its keys seem to be removed. So it ends the leader's term:
the next term has another epoch, and the store refuses the late write.
"""
