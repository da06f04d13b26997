"""How a broker takes part in balancing: it reports its load, and while it leads it decides for all.

Read `context` (what a broker gives to its load manager) and `contract` (what it asks of one). Every manager measures
and writes by `reporting`, with the machine as `environment` has it, follows the others by `load_data_watch`, reads what
the pipeline published (`pipeline_feed`), has decisions carried out and told by `decision_executor` and shows figures by
`metrics`. `round_driver` carries out a round of shedding, `store_writes` writes many keys at once, and
`balancing_configuration` is the part of the settings that a snapshot carries.

The managers: `modular`, the default; `extensible`, in which every broker assigns; `simple`; and `noop_load_manager`.
`factory` makes the one that is configured, `switch` exchanges it while the broker runs.

What is decided, and why, is in `pulsar_barycenter.load`: nothing here compares loads.
"""
