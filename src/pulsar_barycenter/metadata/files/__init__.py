"""Checks of files that this process has open, used by metadata stores and ledgers.

`data_faults` detects files that were removed or replaced while they were open.
"""
