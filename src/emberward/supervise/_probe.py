"""Whether hosts reach each other on the job's link: a listener that answers, and tries that are bounded."""

import contextlib
import socket
import threading
import time
from collections.abc import Mapping

LIMIT_S = 1.0
EVERY_S = 1.0
WORD = b"emberward\n"
NUM_BAD = 2
"""Tries in a row that must fail before a host counts as unreached."""
MAX_PEERS = 64


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
            with contextlib.suppress(OSError), connection:
                connection.settimeout(LIMIT_S)
                connection.sendall(WORD)

    def close(self) -> None:
        """Stops answering."""
        with contextlib.suppress(OSError):
            # Wakes the thread that waits for the next try, which would keep the socket open otherwise.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


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

    def know(self, peers: Mapping[str, tuple[str, int]]) -> None:
        """Takes up hosts: name -> address and port of its listener."""
        for host, place in sorted(peers.items()):
            if host not in self._peers and len(self._peers) < MAX_PEERS:
                threading.Thread(target=self._try, args=(host,), name=f"try-{host}", daemon=True).start()
            if host in self._peers or len(self._peers) < MAX_PEERS:
                self._peers[host] = place

    def _try(self, host: str) -> None:
        while True:
            began_s = time.monotonic()
            if (place := self._peers.get(host)) is not None:
                good = is_reached(*place, from_address=self._from)
                self._bad[host] = 0 if good else self._bad.get(host, 0) + 1
                self._tried.add(host)
            time.sleep(max(EVERY_S - (time.monotonic() - began_s), 0.05))

    def reached(self) -> dict[str, bool]:
        """Whether each host was reached, as far as it was tried; False after NUM_BAD failures in a row."""
        return {host: self._bad.get(host, 0) < NUM_BAD for host in sorted(self._tried)}
