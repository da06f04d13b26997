"""The checks of the doctor, one file for each subject: brokers, namespaces, ownership, configuration, balance, ledgers.

A check takes a picture and yields findings; it reads no clock, socket or file. A check that compares data of different
moments may be wrong while the cluster changes. The catalogue marks such checks; a second reading must confirm their
findings.
"""
