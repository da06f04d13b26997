"""Returns the message of an exception, as a terminal shows it."""


def in_words(error: BaseException) -> str:
    """Return the message of an error; of a system error, the system's text without Python's error number and quotes.

    Raises:
        BrokenPipeError: `error` is one: the reader of the output has closed it, and click ends the program with 1.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
