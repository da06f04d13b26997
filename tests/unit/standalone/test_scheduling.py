"""What a process requests of the interpreter and of the kernel, observed from another process."""

import gc
import json
import subprocess
import sys
from contextlib import suppress

import pytest

from pulsar_barycenter.standalone.scheduling import imports_without_collections

ASK = """
import ctypes, gc, json, os, struct, sys, threading
from pulsar_barycenter.standalone.scheduling import take_short_turns

def attributes():
    buffer = ctypes.create_string_buffer(48)
    number = {"x86_64": 315}.get(os.uname().machine, 275)
    assert ctypes.CDLL(None).syscall(number, 0, buffer, 48, 0) == 0
    return struct.unpack("=IIQiIQQQ", buffer.raw)

nice = os.nice(3)
before = attributes()
take_short_turns()
seen = []
thread = threading.Thread(target=lambda: seen.append(attributes()))
thread.start()
thread.join()
print(json.dumps({
    "before": before, "after": attributes(), "thread": seen[0], "nice": [nice, os.nice(0)],
    "switch": sys.getswitchinterval(), "frozen": gc.get_freeze_count()
}))
"""

SLICE = 5


@pytest.fixture(scope="module")
def told():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_thread_waits_half_a_millisecond_for_the_interpreter_at_the_most(told):
    assert told["switch"] == 0.0005


def test_the_slice_is_short_for_this_thread_and_for_later_ones(told):
    if told["before"][SLICE] == 0:
        pytest.skip("this kernel has no slices of a thread's own (Linux 6.12)")
    assert told["after"][SLICE] == 500_000 < told["before"][SLICE]
    assert told["thread"] == told["after"]


def test_priority_and_policy_stay(told):
    before, after = ([value for at, value in enumerate(told[when]) if at != SLICE] for when in ("before", "after"))
    assert after == before
    was, is_now = told["nice"]
    assert is_now == was >= 3


def test_what_is_loaded_is_not_looked_through_for_garbage_again(told):
    assert told["frozen"] > 1_000


@pytest.mark.parametrize("was_enabled", [True, False])
def test_collections_pause_while_modules_are_imported(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    try:
        with suppress(ImportError), imports_without_collections():
            while_importing = gc.isenabled()
            raise ImportError
        assert not while_importing
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()
