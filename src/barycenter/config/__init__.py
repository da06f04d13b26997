"""The keys of broker.conf, under Pulsar's names.

`broker_config` is the list: one frozen value whose fields carry type, bounds, unit, effect, and whether they may change
while a broker runs. `key` is how such a description is written and read back; `broker_conf` parses the file, Pulsar's
own format, and the overrides that are given at run time. `docs/configuration.md` is generated from the descriptions.

Nothing here acts on a value: whether a combination is wise is for `load.advice`, what it does for those who read it.
"""
