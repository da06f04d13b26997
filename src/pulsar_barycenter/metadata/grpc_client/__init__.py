"""The common parts of the clients of metadata stores that are reached by gRPC (etcd, Oxia).

`server_channel` is a channel to one server that can be abandoned. `server_list` uses one server of a list at a time.
`grpc_errors` converts gRPC's exceptions to errors of the store. `failure_log` logs a repeated failure once.
`heartbeat_session` keeps a session alive by heartbeats and replaces it when it is lost. `grpc_store` opens and closes
such a store.
"""
