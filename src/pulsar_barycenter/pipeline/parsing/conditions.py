"""Combines conditions on columns."""

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column


def all_of(first: Column, *others: Column) -> Column:
    """Return a column that says whether all conditions are true: false if one is false, otherwise null if one is
    null.
    """
    return reduce(and_, others, first)


def any_of(first: Column, *others: Column) -> Column:
    """Return a column that says whether any condition is true: true if one is true, otherwise null if one is null."""
    return reduce(or_, others, first)
