"""Conditions of columns put together."""

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column


def all_of(first: Column, *others: Column) -> Column:
    """Return whether all conditions are true: false if one is false, else null if one is null."""
    return reduce(and_, others, first)


def any_of(first: Column, *others: Column) -> Column:
    """Return whether a condition is true: true if one is, else null if one is null."""
    return reduce(or_, others, first)
