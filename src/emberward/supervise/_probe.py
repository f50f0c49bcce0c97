"""Whether hosts reach each other on the job's link, and how fast: a listener that answers, and bounded tries."""

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping

LIMIT_S = 1.0
EVERY_S = 1.0
WORD = b"emberward\n"
NUM_BAD = 2
"""Tries in a row that must fail before a host counts as unreached."""
MAX_PEERS = 64
ASK = b"L"
LOAD_BYTES = 256 << 10
"""What is fetched to see how fast a link is: 2 ms of a link of 1 Gb/s, and of a job's traffic nothing."""
LOAD_EVERY_S = 2.0
LOAD_LIMIT_S = 5.0
NUM_LOADS = 5
"""Tries of which the shortest counts: a job's own traffic has gaps."""


class Listener:
    """Answers tries on one address of this host. `close` it."""

    def __init__(self, address: str) -> None:
        """Raises OSError when the address is not this host's."""
        self._socket = socket.create_server((address, 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="answer", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=_answer, args=(connection,), name="answer-one", daemon=True).start()

    def close(self) -> None:
        """Stops answering."""
        with contextlib.suppress(OSError):
            # Wakes the thread that waits for the next try, which would keep the socket open otherwise.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _answer(connection: socket.socket) -> None:
    """Says the word, and gives the load to whom asks for it."""
    with contextlib.suppress(OSError), connection:
        connection.settimeout(LIMIT_S)
        connection.sendall(WORD)
        if connection.recv(len(ASK)) == ASK:
            connection.settimeout(LOAD_LIMIT_S)
            connection.sendall(bytes(LOAD_BYTES))


def fetch_s(address: str, port: int, *, from_address: str, limit_s: float = LOAD_LIMIT_S) -> float | None:
    """Seconds that it takes to get the load from the listener there; None when it does not come within `limit_s`."""
    try:
        with socket.create_connection((address, port), timeout=limit_s, source_address=(from_address, 0)) as peer:
            peer.settimeout(limit_s)
            left = len(WORD)
            while left:
                left -= len(_some(peer, left))
            began_s = time.monotonic()
            peer.sendall(ASK)
            left = LOAD_BYTES
            while left:
                left -= len(_some(peer, left))
                if time.monotonic() - began_s > limit_s:
                    return None
            return time.monotonic() - began_s
    except OSError:
        return None


def _some(peer: socket.socket, most: int) -> bytes:
    data = peer.recv(min(most, 1 << 16))
    if not data:
        raise OSError("the other side ended")
    return data


def is_reached(address: str, port: int, *, from_address: str, limit_s: float = LIMIT_S) -> bool:
    """Whether the listener there answers within `limit_s`."""
    try:
        with socket.create_connection((address, port), timeout=limit_s, source_address=(from_address, 0)) as peer:
            peer.settimeout(limit_s)
            return peer.recv(len(WORD)) != b""
    except OSError:
        return False


class Prober:
    """Tries the other hosts, each in a thread of its own, once every EVERY_S; at most MAX_PEERS of them."""

    def __init__(self, from_address: str) -> None:
        self._from = from_address
        self._peers: dict[str, tuple[str, int]] = {}
        self._bad: dict[str, int] = {}
        self._tried: set[str] = set()
        self._loads: dict[str, deque[float]] = {}

    def know(self, peers: Mapping[str, tuple[str, int]]) -> None:
        """Takes up hosts: name -> address and port of its listener."""
        for host, place in sorted(peers.items()):
            if host not in self._peers and len(self._peers) < MAX_PEERS:
                threading.Thread(target=self._try, args=(host,), name=f"try-{host}", daemon=True).start()
            if host in self._peers or len(self._peers) < MAX_PEERS:
                self._peers[host] = place

    def _try(self, host: str) -> None:
        loads = self._loads.setdefault(host, deque(maxlen=NUM_LOADS))
        load_s = 0.0
        while True:
            began_s = time.monotonic()
            if (place := self._peers.get(host)) is not None:
                good = is_reached(*place, from_address=self._from)
                self._bad[host] = 0 if good else self._bad.get(host, 0) + 1
                self._tried.add(host)
                if good and began_s - load_s >= LOAD_EVERY_S:
                    load_s = began_s
                    seconds = fetch_s(*place, from_address=self._from)
                    if seconds is not None:
                        loads.append(seconds)
            time.sleep(max(EVERY_S - (time.monotonic() - began_s), 0.05))

    def fetched_s(self) -> dict[str, float]:
        """The shortest of the last NUM_LOADS fetches from each host, where there were so many."""
        return {host: min(loads) for host, loads in sorted(self._loads.items()) if len(loads) == NUM_LOADS}

    def reached(self) -> dict[str, bool]:
        """Whether each host was reached, as far as it was tried; False after NUM_BAD failures in a row."""
        return {host: self._bad.get(host, 0) < NUM_BAD for host in sorted(self._tried)}
