"""How a broker takes part in balancing: it reports its load, and while it leads it decides for all.

Read `context` (what a broker gives to its load manager) and `contract` (what it asks of one). Every manager measures
and writes by `reporting`, with the machine as `environment` has it, follows the others by `load_data_watch`, reads
what the pipeline published (`pipeline_feed`), has decisions carried out and told by `decision_executor` and shows
figures by `metrics`. `round_driver` carries out a round of shedding. The managers: `noop_load_manager`, `modular`,
`simple`. `factory` makes the one that is configured, `switch` exchanges it while the broker runs.

What is decided, and why, is in `barycenter.load`: nothing here compares loads.
"""
