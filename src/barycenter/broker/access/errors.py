"""Why somebody is not let in."""


class AuthenticationError(Exception):
    """The proof is missing or not believed. What it says may be told to whoever asked, and holds nothing secret."""
