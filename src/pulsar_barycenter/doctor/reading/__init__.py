"""Where a picture comes from: `cluster` asks brokers by their admin REST, `store` reads the keys of a metadata store,
`ledgers` tries the folder of the ledgers, and `file` is a broker.conf on this machine.

What comes is bounded, in number, size and time, and what was left out for that is told. `stored_keys` says what keys
mean, `clock_offset` what the date of an answer tells of a broker's clock; both are pure.
"""
