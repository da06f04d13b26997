"""The error of a call of a broker's admin REST."""


class AdminRequestError(Exception):
    """A broker answered with an error, or did not answer (`status` 0). `reason` is the broker's text, or the cause.

    >>> from pulsar_barycenter.testing import Cluster
    >>> with Cluster(in_process=True) as cluster:
    ...     try:
    ...         cluster.admin("GET", "/admin/v2/namespaces/nobody")
    ...     except AdminRequestError as error:
    ...         print(error.status)
    404
    """

    def __init__(self, method: str, url: str, status: int, reason: str) -> None:
        super().__init__(f"{method} {url}: {status or 'no answer'}: {reason}")
        self.status = status
        self.reason = reason
