"""Recommends a load manager, a strategy and settings for a cluster from its recorded load; docs/advise.md.

Problem. Which configuration is best depends on the load of a cluster. A configuration that is best for one recorded
week may be best by chance.

Rules. The history is split: one part selects a configuration, the other part confirms it. A configuration is only
recommended if it is better than the present one by more than noise, on both parts.

- `parts` splits the history, and measures a run on each part.
- `weighing` computes the cost of a configuration, and whether one is better than another by more than noise.
- `candidate_settings` lists the settings to try; `search` selects the next runs, and the recommendation at the end.
- `document` is the result as a value (`advice.json`), `verdict` words it, `changes` lists the changes to broker.conf.
- `likeness` says whether the replay of the present configuration is like the recorded history.
- `finding` is a problem that balancing cannot solve; `topics_and_bundles` and `brokers` look for such problems.

All of it is pure: the caller of `search` runs the replays.
"""
