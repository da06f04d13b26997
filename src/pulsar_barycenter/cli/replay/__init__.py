"""`barycenter replay`, `advise`, `balance-bench` and `plan`: what would balance best, tried on load in virtual time.

`command` is `replay`, `bench` is `balance-bench`, `advise` and `plan` are the commands of these names. `asked` has the
options that they share.

Inputs are read, runs made and reports written by `pulsar_barycenter.lab`.
"""
