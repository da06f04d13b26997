"""End with 0 if the broker of this container is ready, else with 1 and a sentence: `python health.py [CONF]`.

CONF is the broker.conf that the broker runs with, by default /tmp/broker.conf; its last `webServicePort` counts.
"""

import sys
import urllib.request
from pathlib import Path

READY = "/admin/v2/brokers/ready"
TIMEOUT_S = 5.0


def web_port(conf: str) -> str:
    """Return the port of the REST interface in the text of a broker.conf, 8080 if it has none."""
    port = "8080"
    for line in conf.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == "webServicePort" and value.strip():
            port = value.strip()
    return port


def main() -> None:
    conf = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/broker.conf")  # noqa: S108 - the image writes it there
    url = ""
    try:
        url = f"http://127.0.0.1:{web_port(conf.read_text())}{READY}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(url, timeout=TIMEOUT_S).close()
    except OSError as error:
        sys.exit(f"the broker is not ready: {url or conf}: {error}")


if __name__ == "__main__":
    main()
