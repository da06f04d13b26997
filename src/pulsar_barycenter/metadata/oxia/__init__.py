"""A metadata store in Oxia (0.16 or newer), for brokers on any number of machines.

Rules. Each write also writes a key that belongs to the session, so that Oxia refuses the write when the session has
ended (`writes`). Oxia has no condition for a guard (the version of another key) or for the absence of children: these
are checked by a read just before the write.

The modules, from the interface inwards: `oxia_store` has the operations. `writes` builds the request of a put or delete
and decodes its answer. `layout` maps paths to keys. `session` keeps the session alive and replaces a lost one. `watch`
follows changes. All requests pass through `oxia_connection`, which finds the leader of the shard through one of the
servers in `oxia_settings`. `oxia_api` is the part of Oxia's API that is needed.
"""
