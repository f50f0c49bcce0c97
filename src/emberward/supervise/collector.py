"""The collector's program: keeps the last post of each host in memory and tells everybody what changed.

    python -m emberward.supervise.collector ADDRESS:PORT

It listens on that address alone and knows nobody: put it on a network that only the cluster reaches. One thread serves
all hosts, each on a connection that it keeps: to open one for each letter, and to give it a thread, costs more than the
letter. The part of HTTP/1.1 (RFC 9112) that it speaks: POST with a Content-Length, and an answer of JSON.
"""

import contextlib
import json
import re
import secrets
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

from emberward.supervise._post_office import PostOffice

MAX_POST_BYTES = 16 << 20
MAX_HEAD_BYTES = 16 << 10
MAX_WAITING_BYTES = 64 << 20
"""Of answers that a host does not fetch."""
READ_BYTES = 1 << 18
IDLE_S = 60.0
"""A connection on which nothing comes for so long is closed; a host opens another."""
SWEEP_S = 5.0
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


@dataclass(slots=True)
class _Line:
    """One host's connection: what has come and is not whole yet, and what it is still to get."""

    socket: socket.socket
    heard_s: float
    came: bytearray = field(default_factory=bytearray)
    waiting: bytearray = field(default_factory=bytearray)
    is_last: bool = False


class Collector:
    """The server and the posts that it keeps. `serve_forever` until `shutdown` by another thread."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.office = PostOffice(f"{time.time_ns():020d}-{secrets.token_hex(4)}")
        # Hosts of a job write at once: what is beyond the queue the kernel drops until it is sent again.
        self._listener = socket.create_server(address, backlog=4096)
        self.server_port: int = self._listener.getsockname()[1]
        self._wakes, self._wake = socket.socketpair()
        self._lines: dict[int, _Line] = {}
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._wakes):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *about: object) -> None:
        for line in list(self._lines.values()):
            self._close(line)
        for each in (self._listener, self._wakes, self._wake):
            each.close()
        self._selector.close()

    def shutdown(self) -> None:
        """Ends `serve_forever` soon."""
        self._wake.send(b".")

    def serve_forever(self) -> None:
        """Serves until `shutdown`."""
        swept_s = time.monotonic()
        while True:
            for key, events in self._selector.select(SWEEP_S):
                if key.fileobj is self._wakes:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                    continue
                line: _Line = key.data
                try:
                    if events & selectors.EVENT_READ:
                        self._read(line)
                    if line.waiting:
                        self._write(line)
                except (OSError, ValueError):
                    self._close(line)
            if time.monotonic() - swept_s > SWEEP_S:
                swept_s = time.monotonic()
                for line in [each for each in self._lines.values() if swept_s - each.heard_s > IDLE_S]:
                    self._close(line)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line = _Line(connection, time.monotonic())
                self._lines[connection.fileno()] = line
                self._selector.register(connection, selectors.EVENT_READ, line)

    def _close(self, line: _Line) -> None:
        if self._lines.pop(line.socket.fileno(), None) is not None:
            self._selector.unregister(line.socket)
            line.socket.close()

    def _read(self, line: _Line) -> None:
        """Takes what has come, and answers each letter that is whole. Raises OSError or ValueError to end it."""
        data = line.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError
        line.heard_s = time.monotonic()
        line.came += data
        while not line.is_last and (end := line.came.find(b"\r\n\r\n")) >= 0:
            head = bytes(line.came[: end + 2])
            length = _LENGTH.search(head)
            size = int(length[1]) if length is not None and head.startswith(b"POST ") else 0
            if size > MAX_POST_BYTES:
                size = 0
            if len(line.came) < end + 4 + size:
                return
            line.is_last = size == 0 or _CLOSE.search(head) is not None
            self._answer(line, bytes(line.came[end + 4 : end + 4 + size]))
            del line.came[: end + 4 + size]
        if not line.is_last and len(line.came) > MAX_HEAD_BYTES and line.came.find(b"\r\n\r\n") < 0:
            raise ValueError("no end of the head")

    def _answer(self, line: _Line, body: bytes) -> None:
        state = "200 OK"
        try:
            letter = json.loads(body) if body else None
            if not isinstance(letter, dict):
                raise ValueError("no JSON object")
            said = json.dumps(self.office.take(letter, now_s=time.monotonic())).encode()
        except ValueError as error:
            state, said = "400 Bad Request", json.dumps({"error": f"a host's letter is expected: {error}"}).encode()
        last = "Connection: close\r\n" if line.is_last else ""
        head = f"HTTP/1.1 {state}\r\nContent-Type: application/json\r\n{last}Content-Length: {len(said)}\r\n\r\n"
        line.waiting += head.encode() + said

    def _write(self, line: _Line) -> None:
        with contextlib.suppress(BlockingIOError):
            sent = line.socket.send(line.waiting)
            del line.waiting[:sent]
        if len(line.waiting) > MAX_WAITING_BYTES or (line.is_last and not line.waiting):
            raise ConnectionAbortedError
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.waiting else 0)
        if self._selector.get_key(line.socket).events != wanted:
            self._selector.modify(line.socket, wanted, line)


def main(where: str) -> int:
    """Serves until it is ended."""
    address, _, port = where.rpartition(":")
    with Collector((address, int(port))) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
