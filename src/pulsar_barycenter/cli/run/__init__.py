"""What starts processes and stays until stopped: `standalone` a cluster, `broker` one of it, `demo` a show of one.

The processes of a cluster and their data folder are `standalone`; a broker is put together by `pulsar_barycenter.run`.
"""
