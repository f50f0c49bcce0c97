"""Whether hosts reach each other on the job's link, how fast, and what is lost: a listener, and bounded tries.

[Note: how large a load]
A load has to take LOAD_S to be told from the noise of a busy host, so that it grows with the link, to MAX_LOAD_BYTES at
most: above, processors decide and not links (unshaped pairs of one busy machine vary from 1.5 to 24 Gb/s). It is
fetched so seldom that all peers' loads take LOAD_SHARE of the time. What was lost on the way the kernel of the sender
has counted: segments that it sent again (`_sent_again.py`).

[Note: a link or a processor]
A load that a busy sender gives late takes long as well, and no link is to blame for it. So the sender's kernel says for
how long data was on its way (TCP_INFO, tcpi_busy_time), and of that and of what the getter saw the shorter time counts.

[Note: links are compared over one stretch of time]
A link counts by its loads of the last KEPT_S, and not by a number of loads: slow ones are fetched less often, so that
a number of them reaches further back, and two links that became slow at one moment would seem to do so half a minute
apart.
"""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from emberward.supervise._connections import busy_us_of, counts_of, read_connections
from emberward.supervise._sent_again import KEPT_S, Sent, SentAgain

LIMIT_S = 1.0
EVERY_S = 1.0
WORD = b"emberward\n"
NUM_BAD = 2
"""Tries in a row that must fail before a host counts as unreached."""
FIRST_LOAD_BYTES, MAX_LOAD_BYTES = 256 << 10, 2 << 20
ASK_BYTES, TIME_BYTES = 4, 8
"""How many bytes are wanted, and how many microseconds they were on their way, as numbers in network order."""
GOT, UNKNOWN = b".", 2**64 - 1
TICK_S = 0.01
"""The kernel counts in its ticks, of 10 ms at the most (CONFIG_HZ)."""
LOAD_S = 0.03
LOAD_SHARE = 0.03
LOAD_EVERY_S, LOAD_SELDOM_S = 2.0, 4.0
LOAD_LIMIT_S = 5.0
_INFO_BYTES = 256
MIN_LOADS = 6
"""So many of a slow link lie in KEPT_S, at one every LOAD_SELDOM_S + EVERY_S."""


def info_of(connection: socket.socket) -> bytes:
    """What the kernel knows of a TCP connection, struct tcp_info; empty where it does not say."""
    if not hasattr(socket, "TCP_INFO"):
        return b""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)


class Listener:
    """Answers tries on one address of this host. `close` it."""

    def __init__(self, address: str, port: int | None = None) -> None:
        """Listens at `port`, if it is free. Raises OSError when the address is not this host's."""
        try:
            self._socket = socket.create_server((address, port or 0))
        except OSError:
            if port is None:
                raise
            self._socket = socket.create_server((address, 0))
        self.sent = SentAgain()
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="answer", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), name="answer-one", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """Says the word, and gives the load to whom asks for it."""
        with contextlib.suppress(OSError), connection:
            connection.settimeout(LIMIT_S)
            connection.sendall(WORD)
            asked = connection.recv(ASK_BYTES)
            if len(asked) < ASK_BYTES:
                return
            connection.settimeout(LOAD_LIMIT_S)
            connection.sendall(bytes(min(int.from_bytes(asked, "big"), MAX_LOAD_BYTES)))
            if connection.recv(1):
                info = info_of(connection)
                busy_us = busy_us_of(info)
                connection.sendall((UNKNOWN if busy_us is None else busy_us).to_bytes(TIME_BYTES, "big"))
                if (counts := counts_of(info)) is not None:
                    sent = Sent(segments=counts.segments, again=counts.again, at_s=time.monotonic())
                    self.sent.take(connection.getpeername()[0], sent)

    def close(self) -> None:
        """Stops answering."""
        with contextlib.suppress(OSError):
            # Wakes the thread that waits for the next try, which would keep the socket open otherwise.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def fetch_s(
    address: str, port: int, num_bytes: int, *, from_address: str, limit_s: float = LOAD_LIMIT_S
) -> float | None:
    """Seconds that `num_bytes` take from the listener there; None when they do not come within `limit_s`. Blocks.

    See [Note: a link or a processor].
    """
    try:
        with socket.create_connection((address, port), timeout=limit_s, source_address=(from_address, 0)) as peer:
            peer.settimeout(limit_s)
            left = len(WORD)
            while left:
                left -= len(_some(peer, left))
            began_s = time.monotonic()
            peer.sendall(num_bytes.to_bytes(ASK_BYTES, "big"))
            left = num_bytes
            while left:
                left -= len(_some(peer, left))
                if time.monotonic() - began_s > limit_s:
                    return None
            seconds = time.monotonic() - began_s
            peer.sendall(GOT)
            told = b""
            while len(told) < TIME_BYTES:
                told += _some(peer, TIME_BYTES - len(told))
            busy_us = int.from_bytes(told, "big")
            return seconds if busy_us == UNKNOWN else min(seconds, busy_us / 1e6 + TICK_S)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load that was fetched, and how long it took."""

    num_bytes: int
    seconds: float
    at_s: float
    """When, by this process's monotonic clock."""

    def seconds_of(self, num_bytes: int) -> float:
        """What `num_bytes` take at this rate."""
        return self.seconds * num_bytes / self.num_bytes


def next_size(num_bytes: int, seconds: float) -> int:
    """The size of the next load, twice as large while one takes less than LOAD_S. See [Note: how large a load]."""
    return min(num_bytes * 2, MAX_LOAD_BYTES) if seconds < LOAD_S else num_bytes


def _kept(loads: tuple[Load, ...]) -> tuple[Load, ...]:
    """Those of the last KEPT_S, of which the shortest counts: a job's own traffic has gaps."""
    since_s = time.monotonic() - KEPT_S
    return tuple(each for each in loads if each.at_s >= since_s)


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a host answers tries, and who does: see `Links.listener`."""

    address: str
    port: int
    listener: str


class Links(Protocol):
    """What a host sees of its links to the others, by their names. None of it blocks."""

    port: int
    """Where this host answers tries."""
    listener: str
    """Names who answers there: a port goes from one process to the next, and in between nobody answers."""

    def know(self, peers: Mapping[str, PeerAddress]) -> None:
        """Takes up hosts, by name."""
        ...

    def tried(self) -> Mapping[str, tuple[str, bool]]:
        """host -> its listener, and whether it was reached; as far as the present one was tried."""
        ...

    def fetch_s(self) -> Mapping[str, float]:
        """Seconds that MAX_LOAD_BYTES take from each host, as far as it is known."""
        ...

    def lost(self) -> Mapping[str, float]:
        """The share of the segments to each host that were sent again, as far as it is known."""
        ...


class ProbedLinks:
    """The real links, tried from one address of this host. See `Links`; `close` it."""

    port: int = 0

    def __init__(self, address: str, port: int | None = None, *, tries: bool = True) -> None:
        """See `Listener`. Without `tries`, as between two attempts, it only listens, so that others reach it where they
        did, and on an address that is not this host's nobody does.
        """
        self.listener = secrets.token_hex(4)
        self._prober = Prober(address)
        self._tries = tries
        self._listener = None
        with contextlib.nullcontext() if tries else contextlib.suppress(OSError):
            self._listener = Listener(address, port)
            self.port = self._listener.port

    def close(self) -> None:
        """Leaves the port to who comes next."""
        if self._listener is not None:
            self._listener.close()

    def know(self, peers: Mapping[str, PeerAddress]) -> None:
        """See `Links`."""
        if self._tries:
            self._prober.know(peers)

    def tried(self) -> dict[str, tuple[str, bool]]:
        """See `Links`."""
        return self._prober.tried()

    def fetch_s(self) -> dict[str, float]:
        """See `Links`."""
        return {host: round(load.seconds_of(MAX_LOAD_BYTES), 4) for host, load in self._prober.fetched().items()}

    def lost(self) -> dict[str, float]:
        """See `Links`."""
        if not self._tries or self._listener is None:
            return {}
        with contextlib.suppress(OSError):
            own = [each for each in read_connections() if each.port != self.port]
            self._listener.sent.count(own, now_s=time.monotonic())
        lost = self._listener.sent.shares()
        return {host: round(lost[address], 4) for host, address in self._prober.addresses().items() if address in lost}


class Prober:
    """Tries the other hosts that it knows, each in a thread of its own, once every EVERY_S."""

    def __init__(self, from_address: str) -> None:
        self._from = from_address
        self._peers: dict[str, PeerAddress] = {}
        self._bad: dict[str, tuple[PeerAddress, int]] = {}
        """host -> the listener that was tried last, and the failures in a row."""
        self._loads: dict[str, tuple[Load, ...]] = {}

    def know(self, peers: Mapping[str, PeerAddress]) -> None:
        """Takes up these hosts, by name, and no others any more."""
        new = peers.keys() - self._peers.keys()
        self._peers = dict(peers)
        for host in sorted(new):
            threading.Thread(target=self._try, args=(host,), name=f"try-{host}", daemon=True).start()

    def _try(self, host: str) -> None:
        due_s, size = 0.0, FIRST_LOAD_BYTES
        while (place := self._peers.get(host)) is not None:
            began_s = time.monotonic()
            good = is_reached(place.address, place.port, from_address=self._from)
            tried, num_bad = self._bad.get(host, (place, 0))
            self._bad[host] = place, 0 if good else (num_bad + 1 if tried == place else 1)
            if good and began_s >= due_s:
                due_s = began_s + LOAD_EVERY_S
                seconds = fetch_s(place.address, place.port, size, from_address=self._from)
                if seconds is not None:
                    load = Load(num_bytes=size, seconds=seconds, at_s=began_s)
                    rest_s = seconds * len(self._peers) / LOAD_SHARE
                    due_s = began_s + min(max(rest_s, LOAD_EVERY_S), LOAD_SELDOM_S)
                    larger = next_size(size, seconds)
                    # Loads of another size are not compared with these.
                    self._loads[host] = (*_kept(self._loads.get(host, ())), load) if larger == size else ()
                    size = larger
            time.sleep(max(EVERY_S - (time.monotonic() - began_s), 0.05))

    def addresses(self) -> dict[str, str]:
        """The address of each host that is known."""
        return {host: place.address for host, place in sorted(self._peers.items())}

    def fetched(self) -> dict[str, Load]:
        """The fastest load of the last KEPT_S from each host, all of one size, where there were MIN_LOADS."""
        kept = {host: _kept(loads) for host, loads in sorted(self._loads.items()) if host in self._peers}
        return {
            host: min(loads, key=lambda load: load.seconds) for host, loads in kept.items() if len(loads) >= MIN_LOADS
        }

    def tried(self) -> dict[str, tuple[str, bool]]:
        """See `Links`; a host counts as reached until NUM_BAD tries in a row have failed."""
        last = {host: self._bad[host] for host in sorted(self._peers) if host in self._bad}
        return {
            host: (place.listener, bad < NUM_BAD) for host, (place, bad) in last.items() if place == self._peers[host]
        }
