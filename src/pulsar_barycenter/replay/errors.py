"""The error of an input that cannot be replayed."""


class ReplayInputError(ValueError):
    """An input cannot be replayed; the text says where it is wrong and what to do."""
