"""Ports of loopback for programs that must be given one before they listen, as ranks are by MASTER_PORT."""

import fcntl
import functools
import itertools
import os
import random
import socket
import tempfile
import threading
from pathlib import Path
from typing import IO

FIRST, LAST = 1024, 65535
NETWORKS = range(1, 251)
"""Numbers of networks. Their bytes of the file of locks are no port's."""
DEFAULT_RANGE = (32768, 60999)
"""Of Linux (net/ipv4/af_inet.c), for a platform that has no such file; macOS begins at 49152."""

_one_at_a_time = threading.Lock()


def reserve_port() -> int:
    """A port that nobody listens on, and that stays this process's own until it ends.

    [Note: reserved ports]
    A port that the kernel chose (bind to 0) and that is closed again is free for the kernel to choose again: for
    another test, or for any outgoing connection, before the program that got its number listens. So a port comes from
    outside the range that the kernel chooses from, and a byte of one file, locked for this process's life, keeps it
    from the other test processes of this user. No port is given twice, nor to two threads.
    """
    with _one_at_a_time:
        return _reserve()


def reserve_network() -> int:
    """A number of NETWORKS, for a subnet of a test's own, that stays this process's until it ends.

    See [Note: reserved ports].
    """
    with _one_at_a_time:
        first = random.randrange(len(NETWORKS))
        for number in itertools.chain(NETWORKS[first:], NETWORKS[:first]):
            if number not in _given() and _is_locked_now(number):
                _given().add(number)
                return number
    raise RuntimeError(f"no network of {len(NETWORKS)} is left")


def _reserve() -> int:
    low, high = _ephemeral_range()
    candidates = [*range(FIRST, low), *range(high + 1, LAST + 1)]
    first = random.randrange(len(candidates)) if candidates else 0
    for port in itertools.chain(candidates[first:], candidates[:first]):
        if port not in _given() and _is_locked_now(port) and _is_free(port):
            _given().add(port)
            return port
    raise RuntimeError(f"no port is left outside of {low} to {high}: see /proc/sys/net/ipv4/ip_local_port_range")


@functools.cache
def _given() -> set[int]:
    return set()


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except OSError:
        return DEFAULT_RANGE
    return int(low), int(high)


@functools.cache
def _locks() -> IO[bytes]:
    """The file whose n-th byte is port n. Opened once: closing any handle of it would release the locks."""
    return Path(tempfile.gettempdir(), f"emberward-test-ports-{os.getuid()}").open("ab")


def _is_locked_now(port: int) -> bool:
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
