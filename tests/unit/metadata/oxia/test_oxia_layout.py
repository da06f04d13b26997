"""Paths as keys: ranges contain what they should, in either order of a namespace, and nothing of others."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.metadata.oxia.layout import Layout, child_names, identity

NAMES = st.text("ab-.|~01}é", min_size=1, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
CHROOTS = st.sampled_from(["", "/root", "/a"])


@given(st.sets(PATHS, max_size=30), PATHS | st.just("/"), CHROOTS)
def test_the_range_below_a_path_has_its_children_and_no_others(paths, path, chroot):
    layout = Layout(chroot)
    first, end = layout.below(path)
    read = [each for each in paths if first <= layout.key(each) < end]
    prefix = "/" if path == "/" else f"{path}/"
    below = [each for each in paths if each.startswith(prefix)]
    assert sorted(read) == sorted(below)
    assert child_names(path, read) == {each[len(prefix) :].partition("/")[0] for each in below}


@given(PATHS, CHROOTS)
def test_a_key_leads_back_to_its_path_and_has_no_slash(path, chroot):
    """Keys with slashes lie elsewhere in a namespace that sorts by their number."""
    layout = Layout(chroot)
    assert layout.path(layout.key(path)) == path
    assert "/" not in layout.key(path)


@given(PATHS, st.integers(0, 1 << 62))
def test_what_is_no_key_of_the_store_has_no_path(path, session):
    layout = Layout("/blue")
    for key in (Layout("/bluebell").key(path), Layout("/red").key(path), layout.session(session), "blue", "|blue"):
        assert layout.path(key) is None
    assert Layout().path(Layout().session(session)) is None
    assert Layout().path(layout.sequence(path)) is None


def test_keys_can_be_read_by_people():
    assert Layout().key("/loadbalance/leader") == "|loadbalance|leader"
    assert Layout("/blue").key("/loadbalance/brokers/127.0.0.1:8080") == "|blue|loadbalance|brokers|127.0.0.1:8080"
    assert Layout("/blue").key("/a~|b") == "|blue|a~0~1b"
    assert Layout("/blue").session(0x694D) == f"barycenter|blue:sessions:{identity(0x694D)}"
    assert Layout().session(7) == "barycenter:sessions:0000000000000007"
    assert Layout("/blue").sequence("/counters/x/-") == "barycenter|blue:sequences|counters|x|-"
