"""The collector's program: keeps the last post of each host in memory and tells everybody what changed.

    python -m emberward.supervise.collector ADDRESS:PORT

It listens on that address alone and knows nobody: put it on a network that only the cluster reaches.
"""

import json
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from emberward.supervise._post_office import PostOffice

MAX_POST_BYTES = 16 << 20
LIMIT_S = 10.0


class Collector(ThreadingHTTPServer):
    """The server and the posts that it keeps."""

    daemon_threads = True
    request_queue_size = 1024
    """Hosts of a job write at once: what is beyond the queue, 5 by default, the kernel drops until it is sent again."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self.office = PostOffice(secrets.token_hex(8))
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    timeout = LIMIT_S
    server: Collector

    def do_POST(self) -> None:
        """Takes one host's letter and answers with what changed."""
        try:
            length = int(self.headers.get("Content-Length", "0"))
            letter = json.loads(self.rfile.read(length)) if 0 < length <= MAX_POST_BYTES else None
            if not isinstance(letter, dict):
                raise ValueError("no JSON object")
            with self.server.lock:
                said = self.server.office.take(letter, now_s=time.monotonic())
        except ValueError as error:
            self.send_error(400, f"a host's letter is expected: {error}")
            return
        answer = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a post a second from each host is no news."""


def main(where: str) -> int:
    """Serves until it is ended."""
    address, _, port = where.rpartition(":")
    with Collector((address, int(port))) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
