"""Pulsar's published comparison of its modular and extensible load managers, played on one machine.

Source: apache/pulsar-site pull request 655, review of 2023-07-27 (Pulsar 3.0; hardware, message size and configuration
were not published, so that the shapes of results can be compared, not their minutes).

`managers` names who is compared and starts a cluster of each; `publishers` is the load, by the stock client;
`restarts` (X1, X2), `resizing` (X3, X4) and `splitting` (X5) are the experiments, a function each from a manager to
figures; `__main__` takes turns and makes the table.
"""
