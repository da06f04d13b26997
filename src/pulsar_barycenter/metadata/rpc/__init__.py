"""What the clients of stores that are reached by gRPC have in common, whatever the store.

`line` is a channel that can be given up, `lines` has one to one server of a list at a time, `failures` has what gRPC
raises be errors of the store, `troubles` logs what does not work once, `kept_session` keeps a session alive by
heartbeats and replaces one that was lost, `rpc_store` is how a store of these begins and ends.
"""
