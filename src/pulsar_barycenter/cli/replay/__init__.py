"""`barycenter replay`, `advise`, `balance-bench` and `plan`: run strategies on load in virtual time.

`command` is `replay`, `bench` is `balance-bench`; `advise` and `plan` are the commands of these names. `input_options`
has the options that `replay` and `advise` share. The package `lab` reads the inputs, runs the replays and writes the
reports.
"""
