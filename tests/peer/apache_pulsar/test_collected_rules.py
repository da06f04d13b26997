"""The rules of administrators that `barycenter collect` records beside the load of Apache Pulsar."""

from pathlib import Path

import pytest

from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, read_policies
from support.apache_pulsar import ApachePulsar, soon
from support.apache_pulsar_clients import barycenter, make_topic

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),  # none here, but in the other files that share these clusters
]


def test_groups_and_domains_are_recorded(modular: ApachePulsar, tmp_path: Path) -> None:
    first, domain = modular.brokers[0], "/admin/v2/clusters/c1/failureDomains/rack"
    words = ("--admin-url", first.web_url, "--service-url", modular.service_url, "--out", str(tmp_path))
    modular.owner(make_topic(modular, "ruled"))
    modular.expect(204, "POST", "/admin/v2/namespaces/public/ruled/antiAffinity", json="Pair")
    modular.expect(204, "POST", domain, json={"brokers": [first.broker_id]})

    def is_recorded() -> bool:
        """Return whether a report had the new bundle, and so its namespace was asked for."""
        barycenter("collect", *words, "--rounds", "1")
        found = read_policies(tmp_path / POLICIES_FILE)[-1].policies
        assert found.failure_domains == {first.broker_id: "rack"}
        return found.anti_affinity_groups == {"public/ruled": "pair"}

    try:
        soon(is_recorded, within_s=180, what="the group is recorded")
    finally:
        modular.expect(204, "DELETE", "/admin/v2/namespaces/public/ruled/antiAffinity")
        modular.expect(200, "DELETE", domain)
