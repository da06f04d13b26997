"""The limits of schemas: of one schema, of the schemas of a topic, and of the work that a check may cost."""

from typing import Final

MAX_SCHEMA_BYTES: Final = 262_144
"""The most bytes of a schema's definition. Any metadata store accepts a key of this size, encoded."""

MAX_PROPERTIES_LENGTH: Final = 16_384
"""The most characters of a schema's properties, all keys and values together, and the most properties."""

MAX_VERSIONS: Final = 1_000
"""The most versions of a topic's schema, with those before a deletion; `force` of a deletion removes all."""

MAX_TOPIC_BYTES: Final = 8_388_608
"""The most bytes of the definitions of a topic together, those before a deletion not counted: a transitive strategy
reads all of them, and an answer may have all of them."""

MAX_DEPTH: Final = 64
"""The most levels of an Avro schema, those of named types included: an `array` of `int` has two."""

MAX_TYPES: Final = 5_000
"""The most types in an Avro schema; each field, branch and element counts."""

MAX_STEPS: Final = 20_000
"""The most pairs of types that one comparison of two Avro schemas looks at."""

MAX_NESTED_PAIRS: Final = 130
"""The most levels that one comparison follows. It may be deeper than both schemas if both are recursive."""

MAX_DESCRIPTOR_FILES: Final = 1_000
"""The most files in the descriptor set of a native Protobuf schema."""
