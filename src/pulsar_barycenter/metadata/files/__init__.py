"""Helpers for data in files of this machine, used by stores and ledgers.

`data_faults` detects files that were removed or replaced while they were open.
"""
