"""The collector's program: keeps the last post of each host in memory and gives everybody everybody's.

    python -m emberward.supervise.collector ADDRESS:PORT

It listens on that address alone and knows nobody: put it on a network that only the cluster reaches.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_POST_BYTES = 16 << 20
MAX_HOSTS = 4096
LIMIT_S = 10.0


class Collector(ThreadingHTTPServer):
    """The server and the posts that it keeps."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self.posts: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    timeout = LIMIT_S
    server: Collector

    def do_POST(self) -> None:
        """Takes one host's post and answers with all."""
        try:
            length = int(self.headers.get("Content-Length", "0"))
            post = json.loads(self.rfile.read(length)) if 0 < length <= MAX_POST_BYTES else None
        except ValueError:
            post = None
        if not isinstance(post, dict) or not isinstance(post.get("host"), str):
            self.send_error(400, "a JSON object with a host is expected")
            return
        with self.server.lock:
            if post["host"] in self.server.posts or len(self.server.posts) < MAX_HOSTS:
                self.server.posts[post["host"]] = post
            answer = json.dumps(self.server.posts).encode()
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
