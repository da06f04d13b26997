"""Paths as keys: ranges contain what they should, and skipping deeper keys loses no child."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.metadata.etcd.layout import Layout, child_names, key_after

NAMES = st.text("ab-./é0", min_size=1, max_size=3).filter(lambda name: not name.endswith("/"))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.sets(PATHS, max_size=30), PATHS | st.just("/"), st.sampled_from(["", "/root", "/a"]), st.integers(1, 3))
def test_children_read_in_pages_are_those_of_all_keys(paths, path, chroot, page):
    layout = Layout(chroot)
    keys = sorted(layout.key(each) for each in paths)
    first, end = layout.below(path)
    found = []
    while batch := [key for key in keys if first <= key < end][:page]:
        read = [layout.path(key) for key in batch]
        found += child_names(path, read)
        first = key_after(path, read[-1], layout)
    prefix = "/" if path == "/" else f"{path}/"
    wanted = {each[len(prefix) :].partition("/")[0] for each in paths if each.startswith(prefix)}
    assert set(found) == wanted


@given(st.sets(PATHS, max_size=30), st.sampled_from(["", "/root"]))
def test_all_keys_of_a_store_and_no_others_are_in_its_range(paths, chroot):
    layout, other = Layout(chroot), Layout("/rooted")
    first, end = layout.all
    assert all(first <= layout.key(path) < end and layout.path(layout.key(path)) == path for path in paths)
    if chroot:
        assert not any(first <= other.key(path) < end for path in paths)
    assert not first <= layout.session(7) < end
    assert not first <= layout.sequence("/a") < end


def test_keys_are_those_of_pulsar_and_what_is_ours_begins_otherwise():
    assert Layout().key("/loadbalance/leader") == b"/loadbalance/leader"
    assert Layout("/blue").key("/admin") == b"/blue/admin"
    assert Layout("/blue").session(0x694D) == b"barycenter/blue:sessions/000000000000694d"
    assert Layout().session(-1) == b"barycenter:sessions/ffffffffffffffff"
    assert Layout().sequence("/counters/x/-") == b"barycenter:sequences/counters/x/-"
    assert Layout().path(b"/\xff") is None
