"""Every role of a principal must be allowed; an anonymous one has none."""

from pulsar_barycenter.broker.access.principal import NOBODY, Principal


def test_nobody_has_no_roles() -> None:
    assert NOBODY.roles == ()
    assert str(NOBODY) == "nobody"


def test_through_a_proxy_both_roles_count() -> None:
    principal = Principal("proxy", "alice")
    assert principal.is_proxied
    assert principal.roles == ("proxy", "alice")
    assert str(principal) == "proxy for alice"
    assert not Principal("alice").is_proxied
