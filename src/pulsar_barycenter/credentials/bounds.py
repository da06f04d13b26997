"""How large what comes from outside may be, for all that read it."""

from typing import Final

MAX_TOKEN: Final = 8_000
"""Characters of a token; so many a header of HTTP may have, too."""
MAX_ROLE: Final = 1_000
"""Characters of a role."""
