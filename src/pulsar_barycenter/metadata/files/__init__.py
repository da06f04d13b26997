"""What those who keep data in files of this machine share, stores and ledgers alike.

`data_faults` finds files that were removed or replaced while they were open.
"""
