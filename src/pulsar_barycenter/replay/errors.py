"""The error of an input that cannot be replayed."""


class ReplayInputError(ValueError):
    """What shall be replayed cannot be; the text says where it is wrong and what to do."""
