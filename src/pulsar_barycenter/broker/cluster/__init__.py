"""The cluster as one broker sees it: who is alive, who leads, what is configured, and how brokers are addressed.

Begin with `registration`, the ephemeral key by which a broker is one of the cluster, and `leadership`, the election and
the duties of its winner, whose states are in `leader_term`. `service_urls` says under which id and URLs a broker is
reached, `lookup_answers` what it may answer a lookup with, errors included; most chapters speak in these values.
`dynamic_configuration` lays the cluster's overrides upon the file's settings, and `configuration_warnings` tells the
log what is odd about the result; `setting_changes` keeps who changed what. `http_peers` carries commands to other
brokers. `metadata_writing` says who writes: each broker for itself, or the leader for all, as `leader_writes` has it
do; `writing_modes` keeps the two from running beside each other. What administrators change the leader writes by
`administration`.

Which bundles a broker owns is the subject of `ownership`; what the leader decides, that of `load_manager`.
"""
