"""Two examinations at once on one machine: their members must not meet."""

import itertools
import subprocess
import sys

from emberward.doctor import Fleet
from emberward.doctor._runner import FIRST_PORT, Runner

HOLDER = """
import itertools, sys
from emberward.doctor import Fleet
from emberward.doctor._runner import Runner
runner = Runner(Fleet.of(["a"], 1), None, None, {}, 1.0)
runner._ports = itertools.count(7)
with runner._port() as port:
    print(port, flush=True)
    sys.stdin.read()
"""


def runner_from(number: int) -> Runner:
    runner = Runner(Fleet.of(["a"], 1), None, None, {}, 1.0)  # type: ignore[arg-type] (no process is started)
    runner._ports = itertools.count(number)
    return runner


def test_a_port_that_another_examination_has_taken_is_passed_over_until_its_test_ends():
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        taken = int(holder.stdout.readline())
        assert taken >= FIRST_PORT + 7
        with runner_from(taken - FIRST_PORT)._port() as port:
            assert port > taken, "held by the other process, though nothing listens there"
        holder.stdin.close()
        assert holder.wait(30) == 0
    with runner_from(taken - FIRST_PORT)._port() as port:
        assert port == taken
