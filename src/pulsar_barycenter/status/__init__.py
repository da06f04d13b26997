"""The state of a whole cluster as one value, and as the tables that commands print.

Problem. Operators ask at different places how the cluster is: `barycenter status`, `top`, `config show` and the
dashboard. All must give the same answer, and say what could not be read.

Rules. The input is the picture that `doctor` takes of the cluster. Functions here are pure: picture in, value out.

- `cluster_status` counts brokers, bundles and problems, and summarizes load.
- `board` makes table rows from the load data on which the leader decides.
- `broker_tables` makes the tables of Pulsar's `monitor-brokers`.
- `effective_settings` shows which value of a configuration key is in force on which broker, and where it comes from.

`doctor` asks the brokers, explains each problem and says how to repair it.
"""
