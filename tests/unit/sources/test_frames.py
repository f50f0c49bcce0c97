"""Listing the threads beside a program whose garbage is collected at any moment."""

import gc
import subprocess
import sys
import threading

import pytest

from emberward.sources._frames import current_frames

LIMIT_S = 60.0
BESIDE_GARBAGE = """
import gc, sys, threading
from emberward.sources._frames import current_frames

NUM_ROUNDS = 3_000
is_over = False

def look():
    while not is_over:
        current_frames()

def leave_garbage(depth):
    cycle = [threading.local()]
    cycle.append(cycle)
    return leave_garbage(depth - 1) if depth else sum(range(3000))

gc.set_threshold(3)
sys.setswitchinterval(2e-5)
looker = threading.Thread(target=look)
looker.start()
for _ in range(NUM_ROUNDS):
    leave_garbage(5)
is_over = True
looker.join()
print("over", gc.isenabled())
"""


def test_a_collection_beside_it_stops_no_thread():
    """With ``sys._current_frames`` Python 3.11.7 stands still here within a second (python/cpython issue 106883)."""
    command = [sys.executable, "-c", BESIDE_GARBAGE]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert found.stdout == "over True\n"


@pytest.mark.parametrize("is_on", [True, False])
def test_collections_are_as_the_program_has_them(is_on):
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        assert current_frames()[threading.get_ident()].f_back is sys._getframe()
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
