"""Explains in one sentence why a broker returned nothing, with what to do.

Pulsar answers with an HTML page if a path does not exist, and with a stack trace if a request failed.
"""

import re
from typing import Final

from pulsar_barycenter.admin.client_conf import TOKEN_VARIABLE
from pulsar_barycenter.admin.errors import AdminRequestError

CERTIFICATES_VARIABLE: Final = "SSL_CERT_FILE"
"""OpenSSL's variable: a file of certificates to trust instead of the system's."""

_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_NO_MESSAGE: Final = re.compile(r"--- .* ---|Message: null|Stacktrace:|")
_NO_REPORT: Final = ("UnsupportedOperationException", "The extensible load manager makes no load report")
_MAX_LENGTH: Final = 300

_ADVICE: Final = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "if your own authority signed the certificate, give the authority's file with --tls-trust-cert-path or"
        f" {CERTIFICATES_VARIABLE}",
    ),
    ("WRONG_VERSION_NUMBER", "this address does not use TLS; try http://"),
    ("Bad status line", "try https://"),
    ("Server disconnected", "this is not a web address, or it needs https://"),
)


def without_report(error: AdminRequestError) -> str:
    """Return one line of text about a failed request to a broker: the request, the answer, and what the operator can
    do.
    """
    asked = str(error).removesuffix(error.reason)
    message = _message(error.reason)
    advice = next((advice for sign, advice in _ADVICE if sign in error.reason), None)
    if error.status in (401, 403):
        advice = f"set {TOKEN_VARIABLE} to the token of a superuser"
    elif error.status == 404:
        advice = "check that this is the address of a broker's web service"
    return f"{asked}{message}" + (f"; {advice}" if advice else "")


def has_no_report(error: AdminRequestError) -> bool:
    """Return whether the error shows that the broker runs the extensible load manager, which has no load report.

    Pulsar answers with an exception in this case, Barycenter with a sentence.
    Source: `ExtensibleLoadManagerWrapper.generateLoadReport`.
    """
    return error.status == 500 and any(sign in error.reason for sign in _NO_REPORT)


def _message(reason: str) -> str:
    title = _TITLE.search(reason)
    lines = [" ".join(title.group(1).split())] if title else reason.splitlines()
    message = next((line.strip() for line in lines if not _NO_MESSAGE.fullmatch(line.strip())), "no reason given")
    return message if len(message) <= _MAX_LENGTH else f"{message[:_MAX_LENGTH]}…"
