"""What the call at a line is: by imports, constructors and annotations, whatever things are called."""

import pytest

from emberward.diagnose._expression import does_save, state_at
from emberward.events import HostState

TEXT = """\
import queue as q
import socket
import subprocess as sp
import threading
import time as clock
from time import sleep as nap
import torch
import torch.distributed as td
from torch.distributed import irecv as take, all_reduce
from torch.distributed.distributed_c10d import _get_default_store

guard = threading.Lock()
KEYS: dict = {}


def made(host):
    return td.TCPStore(host, 1234)


class Job:
    def __init__(self, gate: threading.Semaphore, wire: socket.socket):
        self.book = made("a")
        self.gate = gate
        self.wire = wire
        self.work = td.all_reduce(x, async_op=True)
        self.jobs = [take(x, 0), take(x, 1)]
        self.line = q.SimpleQueue()

    def run(self):
        nap(3)  # 30
        clock.sleep(3)
        self.book.get("key")
        self.gate.acquire()
        self.wire.recv(10)
        self.work.wait()
        for job in self.jobs:
            job.wait()
        self.line.get()
        with guard:
            pass
        sp.run(["x"])
        all_reduce(x)
        self.unknown.wait()
        self.unknown.get("key")
        _get_default_store().wait(["key"])
        value = torch.load("x")
        loss.item()
        nap(td.get_rank())
        with open("fifo", "wb") as sink:
            torch.save(x, sink)
        total = compute(x)
"""
LINES = {
    30: HostState.SLEEP,
    31: HostState.SLEEP,
    32: HostState.STORE_WAIT,
    33: HostState.LOCK,
    34: HostState.NETWORK,
    35: HostState.COLLECTIVE,
    37: HostState.P2P,
    38: HostState.LOCK,
    39: HostState.LOCK,
    41: HostState.SUBPROCESS,
    42: HostState.COLLECTIVE,
    43: HostState.COLLECTIVE,
    44: HostState.STORE_WAIT,
    45: HostState.STORE_WAIT,
    46: HostState.FILE_READ,
    47: HostState.DEVICE_SYNC,
    48: HostState.SLEEP,
    49: HostState.FILE_READ,
    51: None,
}
RENAMED = {
    "guard": "sleep",
    "book": "lock",
    "gate": "store",
    "wire": "dist",
    "work": "p2p",
    "jobs": "get",
    "nap": "recv",
}


@pytest.mark.parametrize(("line", "state"), LINES.items())
def test_a_line_is_what_its_names_stand_for(line, state):
    assert state_at(TEXT, None, line) is state


@pytest.mark.parametrize(("line", "state"), LINES.items())
def test_other_names_change_nothing(line, state):
    text = TEXT
    for old, new in RENAMED.items():
        text = text.replace(f".{old}", f".{new}_1").replace(f" {old}", f" {new}_1").replace(f"\n{old}", f"\n{new}_1")
    assert state_at(text, None, line) is state


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("    time.sleep(40)", HostState.SLEEP),
        ("    with turn:", HostState.LOCK),
        ("    dist.all_reduce(x)", HostState.COLLECTIVE),
        ("    handle.wait()", HostState.COLLECTIVE),
        ("    anything.get(key)", HostState.STORE_WAIT),
        ("    os.fdopen(pipe).read(4)", HostState.FILE_READ),
        ("    y = model(x)", None),
        ("    )", None),
    ],
)
def test_a_line_without_its_file_is_judged_by_itself(line, state):
    assert state_at(None, line, 7) is state


def test_a_function_saves_by_what_it_has_called_and_not_by_its_name():
    text = (
        "import torch\n"
        "def keep(x):\n    fetch(x)\n    torch.save(x, 'f')\n    move('f')\n"
        "def save_all(x):\n    retry(3)\n"
        "def main(x):\n    x.backward()\n    torch.save(x, 'f')\n    retry(3)\n"
        "def parts(xs):\n    for x in xs:\n        move(x)\n        torch.save(x, 'f')\n"
    )
    assert [does_save(text, line) for line in (3, 4, 5, 7, 11, 14)] == [False, True, True, False, False, True]
