"""What an error says to the person who reads it on a terminal."""


def in_words(error: BaseException) -> str:
    """Return what an error says, without the number and quotes that Python puts around the system's words.

    Raises:
        BrokenPipeError: it is that. Whoever read the output has seen enough, and click ends the program with 1.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
