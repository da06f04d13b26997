"""Generates load from a seed, in each form in which load is needed; the same seed gives the same load.

`shapes` defines how sizes are distributed over bundles, and the daily swing. `demand` is load for a simulated cluster,
`reports` are load reports as brokers would write them, and `traces` are event counts for real clients.
"""
