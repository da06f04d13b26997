"""The limits of schemas: of one schema, of the schemas of a topic, and of the work that a check may cost."""

from typing import Final

MAX_SCHEMA_BYTES: Final = 262_144
"""The maximum size in bytes of a schema's definition. Any metadata store accepts a value of this size, encoded."""

MAX_PROPERTIES_LENGTH: Final = 16_384
"""The maximum number of characters of all keys and values of a schema's properties together. It is also the maximum
number of properties.
"""

MAX_VERSIONS: Final = 1_000
"""The maximum number of versions of a topic's schema, including those before a deletion. A deletion with `force`
removes all.
"""

MAX_TOPIC_BYTES: Final = 8_388_608
"""The maximum size in bytes of all definitions of a topic since the last deletion: a transitive strategy reads all of
them, and an answer may contain all of them.
"""

MAX_DEPTH: Final = 64
"""The maximum number of nested levels of an Avro schema, including those of named types: an `array` of `int` has
two.
"""

MAX_TYPES: Final = 5_000
"""The maximum number of types in an Avro schema. Each field, branch and element counts."""

MAX_STEPS: Final = 20_000
"""The maximum number of pairs of types that one comparison of two Avro schemas compares."""

MAX_NESTED_PAIRS: Final = 130
"""The maximum number of nested levels in one comparison. If both schemas are recursive, the comparison may have more
levels than each of them.
"""

MAX_DESCRIPTOR_FILES: Final = 1_000
"""The maximum number of files in the descriptor set of a native Protobuf schema."""
