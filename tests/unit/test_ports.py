"""Ports for programs under test: outside of what the kernel gives to connections, and never given twice."""

import contextlib
import functools
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ports


def test_ports_are_free_different_and_none_that_the_kernel_chooses():
    low, high = ports._ephemeral_range()
    given = [ports.reserve_port() for _ in range(50)]
    assert len(set(given)) == 50
    assert not [port for port in given if low <= port <= high]
    for port in given:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_another_process_gets_no_port_that_is_reserved_here_nor_one_in_use():
    reserved = ports.reserve_port()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = (
            f"import ports; taken = {reserved}\n"
            f"ports.FIRST, ports.LAST, ports._ephemeral_range = taken, {ports.LAST}, lambda: (taken + 1, ports.LAST)\n"
            f"print(ports._is_free({listener.getsockname()[1]}))\n"
            "ports.reserve_port()"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=Path(ports.__file__).parent, capture_output=True, text=True
        )
    assert done.stdout == "False\n"
    assert "RuntimeError: no port is left" in done.stderr


def test_threads_get_different_ports_and_open_the_file_of_locks_once(monkeypatch, tmp_path):
    opened, both = [], threading.Barrier(2)

    def open_slowly():
        opened.append(threading.get_ident())
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # until a second thread opens it too, which none may
        return handle

    with (tmp_path / "locks").open("ab") as handle, ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(ports, "_locks", functools.cache(open_slowly))
        first, second = pool.map(lambda _: ports.reserve_port(), range(2))
    assert first != second
    assert len(opened) == 1


def test_another_process_gets_no_network_that_is_reserved_here():
    reserved = {ports.reserve_network() for _ in range(3)}
    assert len(reserved) == 3
    assert reserved <= set(ports.NETWORKS)
    script = (
        f"import ports; ports.NETWORKS = tuple({sorted(reserved)})\nprint(len(ports.NETWORKS))\nports.reserve_network()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(ports.__file__).parent, capture_output=True, text=True
    )
    assert done.stdout == "3\n"
    assert "RuntimeError: no network of 3 is left" in done.stderr
