"""The screen of `barycenter top`, over ssh too.

`tables` are the columns of brokers, bundles, decisions and topics; `top_screen` shows all of it and does what keys say.
"""
