"""The keys of broker.conf, under Pulsar's names.

`broker_config` is the list: one frozen value whose fields carry type, bounds, unit, effect, and whether they may change
while a broker runs. It is put together of three: `serving_config` (the broker in its cluster, topics, clients,
ledgers), `load_balancing_config` and `security_config`. `key` is how such a description is written and read back;
`pulsar_version` says in which defaults Pulsar's lines differ. `addresses` says which names, hosts and listeners there
can be; `broker_conf` parses the file, Pulsar's own format, and the overrides that are given at run time, and `sources`
tells where a value in force comes from. `docs/configuration.md` is generated from the descriptions.

Nothing here acts on a value: whether a combination is wise is for `load.advice`, what it does for those who read it.
"""
