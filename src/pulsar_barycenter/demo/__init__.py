"""The demo: a cluster grows, balances, loses its busiest broker under the load of real clients, and a report tells it.

`scenario` is the run; read it first. Load comes from `replay.traces` or is synthetic, is sent as `plan` says by the
process of `clients`, which keeps count with `tally`; `contenders` are the strategies that its cluster balances by.
Meanwhile `observer` asks the brokers, `log_readers` read what they wrote, and `live_view` shows it. All that was seen
is the `record`: `moves` follows each bundle through it, `gaps` takes together what clients waited for, `summary` makes
figures of it, and `report` a page, or one of two runs side by side.

Processes are left to `standalone`; the demo is a user of the cluster like any other.
"""
