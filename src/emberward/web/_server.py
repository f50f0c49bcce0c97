"""The server of the pages: standard library, GET and HEAD only, bound to this machine unless asked otherwise.

[Note: who may read]
Whoever reaches a loopback port is a user of this machine. On any other address a token is needed: it stands in the link
once, becomes a cookie that scripts cannot read, and goes from the address. A page of another site can make a browser
ask us under a name of its own (DNS rebinding), so the Host header must be a name that we expect. Names in a request are
looked up, never joined to a path. Nothing is changed by a request.
"""

import hmac
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from emberward.findings import PROGRAM
from emberward.report import RunFolder, find_runs, join, tag
from emberward.web._columns import MAX_POINTS
from emberward.web._drawer import drawer_part
from emberward.web._lag import lag_json
from emberward.web._list import compare_page, key_of, list_page
from emberward.web._live_run import Facts, LiveRun
from emberward.web._page import SCRIPTS, STYLES, asset, document, file_page, live_page
from emberward.web._runbook import runbook_part

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_STREAMS = 64
MAX_RUNS_HELD = 16
"""Runs whose columns are kept in memory: at most 64 MB each at a million steps."""
PING_S = 15.0
SOCKET_TIMEOUT_S = 30.0
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
STREAM_TYPE = "text/event-stream; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
_RUN = re.compile(r"/run/([0-9a-f]{16})/(|events|series|lag|rank|page\.html|runbook)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is served. `only`: the run to open first; else all below `runs`. `hosts`: names that requests may use.

    `program`: what the readers type for `emberward`.
    """

    runs: Path
    only: RunFolder | None
    facts: Facts
    hosts: frozenset[str] = LOOPBACK
    token: str | None = None
    program: str = PROGRAM
    clock: Callable[[], float] = field(default=time.time)


class PageServer(ThreadingHTTPServer):
    """Serves the pages of a site until it is shut down. Each request has a thread of its own that ends with us."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, site: Site, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.site = site
        self.streams = threading.BoundedSemaphore(MAX_STREAMS)
        self._runs: dict[str, LiveRun] = {}
        self._guard = threading.Lock()

    @property
    def port(self) -> int:
        """The port that we listen on."""
        return int(self.server_address[1])

    def folders(self) -> list[RunFolder]:
        """The runs that are served."""
        return list(find_runs(self.site.runs))

    def run(self, key: str) -> LiveRun | None:
        """The run with that key; None when there is none."""
        with self._guard:
            held = self._runs.get(key)
        if held is not None:
            return held
        known = [*self.folders(), *([self.site.only] if self.site.only is not None else [])]
        folder = next((each for each in known if key_of(each) == key), None)
        if folder is None:
            return None
        with self._guard:
            while len(self._runs) >= MAX_RUNS_HELD:
                self._runs.pop(next(iter(self._runs)))
            return self._runs.setdefault(
                key, LiveRun(folder, self.site.facts, clock=self.site.clock, program=self.site.program)
            )

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is the reader's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "emberward"
    sys_version = ""
    timeout = SOCKET_TIMEOUT_S
    server: PageServer

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal belongs to the person."""

    def do_HEAD(self) -> None:
        """The head of what GET answers: `_finish` leaves the body out."""
        self.do_GET()

    def do_GET(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            self._answer()

    def _answer(self) -> None:
        at = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(at.query).items()}
        if not self._is_expected_host():
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this name is not served: give it with --host")
        token = self.server.site.token
        if token is not None and not self._has_cookie(token):
            if hmac.compare_digest(query.get("token", "").encode(), token.encode()):
                return self._enter(token)
            return self._refuse(HTTPStatus.FORBIDDEN, "open the link that emberward ui printed: it carries a token")
        if at.path == "/":
            return self._front()
        if at.path == "/list":
            return self._list()
        if at.path == "/compare":
            return self._compare(parse_qs(at.query).get("run", []))
        if at.path.startswith("/asset/"):
            return self._asset(at.path.removeprefix("/asset/"))
        found = _RUN.fullmatch(at.path)
        run = None if found is None else self.server.run(found[1])
        if found is None or run is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page or run")
        return self._of_run(run, found[2], query)

    def _is_expected_host(self) -> bool:
        name = self.headers.get("Host") or ""
        host = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        return host.lower() in self.server.site.hosts

    def _has_cookie(self, token: str) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie") or "").get(f"emberward-{self.server.port}")
        except Exception:  # noqa: BLE001 (a cookie that cannot be read is no cookie)
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), token.encode())

    def _enter(self, token: str) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "./")
        self.send_header("Set-Cookie", f"emberward-{self.server.port}={token}; HttpOnly; SameSite=Strict; Path=/")
        self._finish(b"", "text/plain")

    def _front(self) -> None:
        only = self.server.site.only
        if only is None:
            return self._list()
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"run/{key_of(only)}/")
        return self._finish(b"", "text/plain")

    def _list(self) -> None:
        site = self.server.site
        self._page(list_page(self.server.folders(), site.facts, now_unix=site.clock(), program=site.program))

    def _of_run(self, run: LiveRun, what: str, query: dict[str, str]) -> None:
        if what == "":
            return self._page(live_page(run.glance()))
        if what == "events":
            return self._events(run)
        if what == "series":
            points = min(_int(query.get("points")) or MAX_POINTS, MAX_POINTS)
            return self._json(run.series(low=_int(query.get("from")), high=_int(query.get("to")), points=points))
        if what == "lag":
            return self._json(lag_json(run.folder, low=_int(query.get("from")), high=_int(query.get("to"))))
        if what == "rank":
            rank = _int(query.get("rank"))
            if rank is None:
                return self._refuse(HTTPStatus.BAD_REQUEST, "rank must be a number")
            return self._send(drawer_part(run.glance(), rank).encode(), "text/html; charset=utf-8")
        if what == "page.html":
            return self._page(file_page(run.glance(), run.columns()))
        section = runbook_part(query.get("code", ""))
        if section is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such finding code")
        links = join(*(tag("link", rel="stylesheet", href=f"../../asset/{name.rpartition('/')[2]}") for name in STYLES))
        back = tag("p", tag("a", "back to the run", href="./"))
        return self._page(document(query["code"], tag("main", back, section, class_="runbook-page"), head=links))

    def _compare(self, keys: list[str]) -> None:
        runs = [run for key in keys[:2] if (run := self.server.run(key)) is not None]
        if len(runs) != 2:
            return self._refuse(HTTPStatus.BAD_REQUEST, "choose two runs in the list")
        return self._page(compare_page(runs[0].folder, runs[0].columns(), runs[1].folder, runs[1].columns()))

    def _asset(self, name: str) -> None:
        known = {each.rpartition("/")[2]: each for each in (*SCRIPTS, *STYLES, "static/compare.js")}
        if name not in known:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such file")
        return self._send(asset(known[name]).encode(), TYPES[name.rpartition(".")[2]])

    def _events(self, run: LiveRun) -> None:
        """The stream of what changes; ends when the page goes. A page that comes back gets what it missed."""
        if self.command == "HEAD":
            return self._send(b"", STREAM_TYPE)
        if not self.server.streams.acquire(blocking=False):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_STREAMS} pages are open already")
        try:
            self.send_response(HTTPStatus.OK)
            self._headers(STREAM_TYPE)
            self.send_header("X-Accel-Buffering", "no")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            have = self.headers.get("Last-Event-ID") or parse_qs(urlsplit(self.path).query).get("id", [""])[-1] or None
            hashes: dict[str, str] = {}
            self._write("retry: 1000\n\n")
            with run:
                version = 0
                while True:
                    seen = run.wait(version, timeout_s=PING_S)
                    if seen == version:
                        self._write(": still here\n\n")
                        continue
                    version = seen
                    change = run.change(have, hashes)
                    have = change.id
                    body: dict[str, object] = {"now": self.server.site.clock(), "parts": change.parts}
                    body |= {"points": change.points} if change.points is not None else {}
                    body |= {"reset": True} if change.must_reset else {}
                    self._write(f"id: {change.id}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n")
        finally:
            self.server.streams.release()

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def _page(self, text: str) -> None:
        self._send(text.encode(), "text/html; charset=utf-8", policy=None if "http-equiv" in text[:400] else POLICY)

    def _json(self, value: object) -> None:
        self._send(json.dumps(value, separators=(",", ":"), allow_nan=False).encode(), "application/json")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(f"{why}\n".encode(), "text/plain; charset=utf-8", status=status)

    def _send(self, body: bytes, kind: str, *, status: HTTPStatus = HTTPStatus.OK, policy: str | None = POLICY) -> None:
        self.send_response(status)
        self._finish(body, kind, policy=policy)

    def _headers(self, kind: str, *, policy: str | None = POLICY) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if policy is not None:
            self.send_header("Content-Security-Policy", policy)

    def _finish(self, body: bytes, kind: str, *, policy: str | None = POLICY) -> None:
        self._headers(kind, policy=policy)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)
