"""The extensible load manager: every broker assigns and splits, the leader unloads, all know the load from two topics.

Read `extensible_load_manager` first. `load_stores` are the two topics, `load_data` what a broker knows from them and
from the list of brokers, `reporters` what it tells in them. `deciding` asks the pure functions of `load`; it
brings numpy and is imported when this broker first decides. `metrics` are the figures, under Pulsar's names.

Who owns what is kept in the ownership channel (`broker.ownership.channel`).
"""
