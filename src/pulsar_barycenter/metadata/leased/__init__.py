"""Sessions that a leader grants, over a store of which nothing is asked but lasting keys and guarded writes.

What a store with sessions does by itself, the leader does here: it alone writes, and removes the keys of brokers that
are lost. `values` says how a lasting key names the session that it is leased to; `records`, what the leader keeps of
each session; `requests`, what a broker asks of the leader; `session_table`, when a session is over: the rule, without
clock or I/O. `writer` is the leader's side of one term, `lease` how a broker knows that its session lasts, and
`leased_store` the store that it sees: a `MetadataStore` as any other.

Claim: when a key of a session is removed, or given to another, its broker has taken the session for lost before.
Proof: a broker relies on its session until 5/6 of a lease after it sent the last read that found its record unmarked.
Only a leader of the epoch of now marks a record, as the store asks for the epoch in the same step; and it removes
nothing until a whole lease after it knew of the mark, the broker's or its own, whichever is longer. That read was
answered from before the mark, so it was sent before it. Rates of two clocks may differ by a fifth. Or the broker said
itself that it has ended what it did.

A write of unknown outcome may still be on its way when its keys are thought to be gone. So it ends the leader's term:
the next has another epoch, which refuses it.
"""
