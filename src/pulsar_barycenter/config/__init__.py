"""The keys of broker.conf, with Pulsar's names.

Problem. Operators bring configuration files of Pulsar, change some keys while brokers run, and read the meaning of
every key in the documentation. All of that must follow from one description of each key.

Rules. A key is a field of one frozen value. The field carries its type, limits, unit and effect, and whether it may
change at run time. Parsing, error messages and `docs/configuration.md` are derived from that. A wrong value is refused
with the key, the value and what is allowed.

`broker_config` is the list of keys. It consists of three parts: `serving_config` (the broker in its cluster, topics,
clients, ledgers), `load_balancing_config` and `security_config`. `key` describes a key; `pulsar_version` has the
defaults in which Pulsar's versions differ. `addresses` validates names, hosts and listeners. `broker_conf` parses the
file and the overrides at run time; `sources` says where a value comes from.

No code here acts on a value. `load.advice` decides whether a combination is reasonable; the readers of a key define
what it does.
"""
