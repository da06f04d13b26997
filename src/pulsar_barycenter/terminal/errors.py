"""Returns the message of an exception, as a terminal shows it."""


def in_words(error: BaseException) -> str:
    """Return the message of an error. For an error of the operating system, this is the system's text, after the file
    name if there is one, without Python's error number and quotes.

    Raises:
        BrokenPipeError: `error` is a BrokenPipeError, which is raised again: the reader of the output has closed it,
            and click then ends the program with exit code 1.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
