"""The full-screen view of `barycenter top`; it also works over ssh.

`tables` defines the columns of brokers, bundles, decisions and topics. `top_screen` shows the tables, refreshes them
and handles the keys.
"""
