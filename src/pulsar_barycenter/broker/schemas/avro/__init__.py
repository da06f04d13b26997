"""Avro schemas: reads definitions, and decides whether data of one schema can be read with another.

Problem: the broker has to know, without any data, whether each value that a writer's schema allows can be decoded with
a reader's schema. Rules: those of schema resolution in the Avro specification, as Java's `Resolver` applies them:

| writer and reader               | can be read if                                                                   |
|---------------------------------|----------------------------------------------------------------------------------|
| the same primitive type         | always                                                                           |
| int; long; float                | the reader has long, float or double; float or double; double                    |
| string, bytes                   | either reads the other                                                           |
| array, map                      | their elements can be read                                                       |
| fixed                           | full name (or an alias) and size are equal                                       |
| enum                            | unqualified name (or an alias) is equal, and the reader has all symbols of the   |
|                                 | writer, or a default                                                             |
| record                          | each field of the reader is a readable field of the writer (by name, then by     |
|                                 | alias), or has a default that is valid for its type. Names of records only choose |
|                                 | the branch of a union.                                                           |
| a union of the writer           | each branch can be read                                                          |
| a union of the reader           | the branch that Java chooses can be read: the one of the same full name or kind, |
|                                 | else the first readable record, else the first promotion                         |

Java's validator, which Pulsar calls, accepts a reader's enum that lacks symbols of the writer; then reading fails when
such data arrives. Here such a reader is refused.

Recursive schemas are graphs, so a pair of named types that is being compared counts as readable. Hostile schemas make
such comparisons long or deep; `schemas.bounds` has the limits, after which a schema is refused.

- `types`: an Avro schema as a value. `parsing`: reads a definition. `identity`: whether two definitions are the same
  schema.
- `defaults`: whether a default is valid for a type. `resolution`: the table above. `budget`: what both may cost.
"""
