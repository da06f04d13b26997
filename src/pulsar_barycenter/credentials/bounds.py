"""The maximum sizes of credentials from outside, for all modules that parse them."""

from typing import Final

MAX_TOKEN: Final = 8_000
"""The maximum number of characters of a token. HTTP headers are limited to the same number."""
MAX_ROLE: Final = 1_000
"""The maximum number of characters of a role, the name by which permissions are granted."""
