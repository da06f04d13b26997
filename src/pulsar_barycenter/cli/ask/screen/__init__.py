"""The screen of `barycenter top`, over ssh too.

`tables` are the columns of brokers, bundles, decisions and topics, `topics` asks for the last of these, of so many
bundles and no more, and `top_screen` shows all of it and does what keys say.
"""
