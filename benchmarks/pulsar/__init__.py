"""Compares Barycenter with Apache Pulsar: the same clients and the same loads, in turns.

`systems` starts either one: Pulsar as ZooKeeper, one bookie and one broker, whose jars come from Maven; Barycenter
as one broker process. Both sync what they acknowledge. `loads` measures one of them; `rounds` takes turns; `__main__`
makes the table.
"""
