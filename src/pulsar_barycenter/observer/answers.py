"""Why a broker gave nothing, in a sentence with what to do about it.

Pulsar answers with a page of HTML where there is no such path, and with its stack trace where it failed.
"""

import re
from typing import Final

from pulsar_barycenter.admin.client_conf import TOKEN_VARIABLE
from pulsar_barycenter.admin.errors import AdminRequestError

CERTIFICATES_VARIABLE: Final = "SSL_CERT_FILE"
"""OpenSSL's own: a file of certificates to trust instead of the system's."""

_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_NO_NEWS: Final = re.compile(r"--- .* ---|Message: null|Stacktrace:|")
_NO_REPORT: Final = ("UnsupportedOperationException", "The extensible load manager makes no load report")
_LONGEST: Final = 300

_ADVICE: Final = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        f"if an authority of your own signed it, name its file by --tls-trust-cert-path or {CERTIFICATES_VARIABLE}",
    ),
    ("WRONG_VERSION_NUMBER", "there is no TLS at this address; is it http://?"),
    ("Bad status line", "is it https://?"),
    ("Server disconnected", "this is no web address, or one of https://"),
)


def without_report(error: AdminRequestError) -> str:
    """Return one line that says what was asked, what came, and what may help."""
    asked = str(error).removesuffix(error.reason)
    told = _news(error.reason)
    advice = next((advice for sign, advice in _ADVICE if sign in error.reason), None)
    if error.status in (401, 403):
        advice = f"set {TOKEN_VARIABLE} to the token of a superuser"
    elif error.status == 404:
        advice = "is this the address of a broker's web service?"
    return f"{asked}{told}" + (f"; {advice}" if advice else "")


def has_no_report(error: AdminRequestError) -> bool:
    """Tell whether the broker runs the extensible load manager.

    It has no load report: Pulsar answers with the exception that says so, Barycenter in a sentence.
    Source: `ExtensibleLoadManagerWrapper.generateLoadReport`.
    """
    return error.status == 500 and any(sign in error.reason for sign in _NO_REPORT)


def _news(reason: str) -> str:
    title = _TITLE.search(reason)
    lines = [" ".join(title.group(1).split())] if title else reason.splitlines()
    told = next((line.strip() for line in lines if not _NO_NEWS.fullmatch(line.strip())), "no reason given")
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
