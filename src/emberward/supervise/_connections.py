"""What the kernel has counted on the TCP connections of this host, whoever's they are.

Asked of it by sock_diag(7), which needs no rights and sees the network namespace of the asker: so the traffic of the
job itself, as NCCL's and gloo's sockets carry it, tells what its links lose, and no byte is sent for it.
"""

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, linux/tcp.h.
_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP = 4, 20, 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("IHHII")
_ASK = struct.Struct("BBBxI48x")
"""struct inet_diag_req_v2: family, protocol, what is wanted besides, states, and no socket in particular."""
_ESTABLISHED = 1 << 1
_TCP_INFO = 2
_BODY_BYTES = 72
"""struct inet_diag_msg, before its attributes."""
_ANSWER_BYTES = 1 << 16
LIMIT_S = 1.0
MAX_CONNECTIONS = 1 << 16
_COUNTED_BYTES, _WITH_TIMES_BYTES, _WITH_DUPLICATES_BYTES = 160, 184, 220


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Segments with data that were sent on a connection so far, and how many had to be sent again.

    What the other side had got already, and said so (RFC 2883), was sent again in vain: nothing was lost.
    """

    segments: int
    again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An established connection. `cookie` is the kernel's own number of it, never used twice."""

    cookie: int
    port: int
    peer: str
    counts: Counts


def counts_of(info: bytes) -> Counts | None:
    """What struct tcp_info of linux/tcp.h counts; None where the kernel is older than 4.6 and does not."""
    if len(info) < _COUNTED_BYTES:
        return None
    (again,), (segments,) = struct.unpack_from("I", info, 100), struct.unpack_from("I", info, 156)
    (in_vain,) = struct.unpack_from("I", info, 216) if len(info) >= _WITH_DUPLICATES_BYTES else (0,)
    return Counts(segments=segments, again=max(again - in_vain, 0))


def busy_us_of(info: bytes) -> int | None:
    """Microseconds in which struct tcp_info says that data was on its way; None where the kernel is older than 4.10.

    A sender that is late itself, as on a slow processor, has nothing on its way meanwhile.
    """
    return None if len(info) < _WITH_TIMES_BYTES else int(struct.unpack_from("Q", info, 168)[0])


def read_connections() -> tuple[Connection, ...]:
    """The established connections of this host, of both families; blocks LIMIT_S a family at most.

    Raises OSError where the kernel does not tell, as on systems other than Linux.
    """
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("no netlink here")
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asker:
            asker.settimeout(LIMIT_S)
            ask = _ASK.pack(family, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), _ESTABLISHED)
            asker.send(_HEADER.pack(_HEADER.size + len(ask), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + ask)
            found += [each for body in _answers(asker) if (each := _connection(body)) is not None]
    return tuple(found)


def _answers(asker: socket.socket) -> Iterator[bytes]:
    for _ in range(MAX_CONNECTIONS):
        data, place = asker.recv(_ANSWER_BYTES), 0
        while place + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, place)
            if kind == _DONE:
                return
            if kind == _ERROR or length < _HEADER.size:
                raise OSError("the kernel does not list its connections")
            yield data[place + _HEADER.size : place + length]
            place += (length + 3) & ~3


def _connection(body: bytes) -> Connection | None:
    if len(body) < _BODY_BYTES:
        return None
    port, _ = struct.unpack_from(">HH", body, 4)
    address = ipaddress.ip_address(body[24:28] if body[0] == socket.AF_INET else body[24:40])
    mapped = getattr(address, "ipv4_mapped", None)
    (cookie,) = struct.unpack_from("Q", body, 44)
    place = _BODY_BYTES
    while place + 4 <= len(body):
        length, kind = struct.unpack_from("HH", body, place)
        if kind == _TCP_INFO and (counts := counts_of(body[place + 4 : place + length])) is not None:
            return Connection(cookie=cookie, port=port, peer=str(mapped or address), counts=counts)
        place += max((length + 3) & ~3, 4)
    return None
