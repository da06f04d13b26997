"""What is asked before a client gets anything: whether it may have what it asks for (`rights`), whether there may be
another connection (`connection_limits`), whether there is memory for what it publishes (`publish_buffer`), whether that
is whole (`sends`).
"""
