"""What may go wrong when a broker's admin REST is called; there is one error, with what the broker said."""


class AdminRequestError(Exception):
    """A broker answered with an error, or not at all; then `status` is 0. `reason` is the answer's own words."""

    def __init__(self, method: str, url: str, status: int, reason: str) -> None:
        super().__init__(f"{method} {url}: {status or 'no answer'}: {reason}")
        self.status = status
        self.reason = reason
