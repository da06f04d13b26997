"""Combines conditions on columns."""

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column


def all_of(first: Column, *others: Column) -> Column:
    """Return a column that is true if all conditions are true, and false if at least one is false. Otherwise, if at
    least one is null, it is null.
    """
    return reduce(and_, others, first)


def any_of(first: Column, *others: Column) -> Column:
    """Return a column that is true if at least one condition is true. Otherwise it is null if at least one is null,
    else false.
    """
    return reduce(or_, others, first)
