"""The modular load manager: every broker folds all reports, the leader decides upon them.

`load_data` is what each broker knows of the cluster, `modular_load_manager` its life. What only a leader does is in
`leader`, upon `snapshots`; these two bring numpy, and are imported when a broker first leads.
"""
