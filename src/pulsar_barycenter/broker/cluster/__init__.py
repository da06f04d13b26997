"""The cluster as one broker sees it: the live brokers, the leader, the configuration, and the URLs of brokers.

Rule: before a broker acts on what it knows about other brokers, the store checks whether this is still true. A broker
may be paused, or cut off, while another broker becomes leader. So the leader has an epoch, on which each of its writes
depends; and a broker counts as alive while its ephemeral key exists.

- Members: `registration` (the ephemeral key of each broker, and the list of all); `service_urls` (id and URLs of a
  broker); `lookup_answers` (the answers and errors of a look-up, which many packages use).
- Leader: `leadership` (election, and duties: work that the leader repeats); `leader_term` (its states and events);
  `candidacy` (a broker that cannot balance leaves the lead to others); `http_peers` (commands to other brokers).
- Configuration: `dynamic_configuration` (overrides of the file, for the whole cluster); `configuration_warnings` (logs
  advice on the result); `setting_changes` (who changed which setting).
- Writing: `metadata_writing` (each broker writes for itself, or the leader for all); `leader_writes` (the leader
  writes for all brokers); `administration` (the leader writes what administrators change); `writing_modes` (prevents
  that brokers of different modes run together).

`ownership` decides which bundles a broker owns; `load_manager` has the decisions of the leader.
"""
