"""Where the agents of several hosts leave their posts: a folder that all share, or a collector reached by HTTP.

Whoever reads the posts judges them, by the same pure rules: every host comes to the same verdict, and no host is needed
for it. The way to the mailbox should be another one than the job's link.
"""

import http.client
import json
import secrets
import time
import urllib.parse
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from emberward.report import read_json, write_json, write_once
from emberward.runs import host_file_name
from emberward.supervise._agreement import Agreed
from emberward.supervise._nodes import FRESH_S

LIMIT_S = 3.0
MAX_HOSTS = 4096
MAX_ANSWER_BYTES = 64 << 20
REGISTER = "agreed"

Posts = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """All posts that are known, by host, ours included; and since how many seconds each host has said nothing.

    Hosts that said that they left have no such time, nor those that were never seen to renew their post: it may be of
    an earlier job. `agreed`: the register's entry, and whether it counts. `judges`: the hosts that hear all posts and
    judge for the others, which hear theirs and their own peers' addresses; None: every host does.
    """

    posts: Posts
    silent_s: Mapping[str, float]
    agreed: tuple[Agreed, bool] | None = None
    judges: tuple[str, ...] | None = None

    def without(self, hosts: Collection[str]) -> "Heard":
        """What the others say."""
        if not hosts:
            return self
        return replace(
            self,
            posts={host: post for host, post in self.posts.items() if host not in hosts},
            silent_s={host: silent_s for host, silent_s in self.silent_s.items() if host not in hosts},
        )


class Mailbox(Protocol):
    """Takes a host's post and gives everybody's."""

    def exchange(self, host: str, post: Mapping[str, Any], proposal: Agreed | None = None) -> Heard:
        """What is known after it. `proposal`: for the register. Raises OSError when the mailbox cannot be reached."""
        ...


class FolderMailbox:
    """One file a host in a shared folder. A file system that stands still holds its caller up: call it from a child."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._freshness = Freshness()
        self._clock = clock
        self._read: dict[str, dict[str, Any]] = {}
        """What each file said last: one that cannot be read now has not taken its host away."""

    def exchange(self, host: str, post: Mapping[str, Any], proposal: Agreed | None = None) -> Heard:
        """See `Mailbox`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        register = self._folder / REGISTER
        if proposal is not None:
            register.mkdir(exist_ok=True)
            write_once(register / f"{proposal.number:06d}.json", proposal.to_json())
        write_json(self._folder / f"{host_file_name(host)}.json", {"host": host, **post})
        found: Posts = {}
        for path in sorted(self._folder.glob("*.json"))[:MAX_HOSTS]:
            said = read_json(path) or self._read.get(path.name)
            if said is not None and isinstance(said.get("host"), str):
                found[said["host"]] = self._read[path.name] = said
        newest = max(register.glob("[0-9]*.json"), default=None)
        entry = None if newest is None else Agreed.from_json(read_json(newest))
        return Heard(
            posts=found,
            silent_s=self._freshness.silent_s(found, now_s=self._clock()),
            agreed=None if entry is None else (entry, True),
        )


class LetterMailbox:
    """A collector that `send` reaches: it hands over a letter and gives the answer, or raises OSError.

    See `_post_office.py` [Note: changes]. Hosts that a collector which began anew does not know yet are remembered.
    """

    def __init__(self, send: Callable[[dict[str, Any]], Mapping[str, Any]], *, clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._writer = secrets.token_hex(8)
        self._number = 0
        self._session: str | None = None
        self._version = 0
        self._answered: dict[str, Any] = {}
        self._posts: Posts = {}
        self._here: set[str] = set()
        self._fresh_s: dict[str, float] = {}
        self._agreed: tuple[Agreed, bool] | None = None

    def exchange(self, host: str, post: Mapping[str, Any], proposal: Agreed | None = None) -> Heard:
        """See `Mailbox`."""
        told = {name: value for name, value in post.items() if name != "number"}
        answer = self._write(host, told, proposal)
        if answer.get("wants_whole") is True:
            self._session = None
            answer = self._write(host, told, proposal)
        if not isinstance(answer.get("posts"), Mapping) or not isinstance(answer.get("silent_s"), Mapping):
            raise OSError("the collector's answer is not understood")
        if answer["session"] != self._session:
            # The collector before told of no silence up to FRESH_S: its last answer may hide as much.
            self._fresh_s |= {name: self._fresh_s[name] - FRESH_S for name in self._here}
            self._here, self._agreed = set(), None
        if (entry := Agreed.from_json(answer.get("agreed"))) is not None:
            self._agreed = entry, answer.get("counts") is True
        self._session, self._version, self._answered = answer["session"], int(answer["version"]), told
        now_s = self._clock()
        for name, changes in answer["posts"].items():
            known = self._posts.get(name, {}) if name in self._here else {}
            self._posts[name] = {**known, **changes, "host": name}
            self._here.add(name)
        silent = answer["silent_s"]
        self._fresh_s |= {name: now_s - float(silent.get(name, 0.0)) for name in self._here}
        return Heard(
            agreed=self._agreed,
            judges=tuple(answer.get("judges") or ()),
            posts=self._posts,
            silent_s={
                name: now_s - self._fresh_s[name]
                for name, each in self._posts.items()
                if each.get("renewed") is True and each.get("has_left") is not True
            },
        )

    def _write(self, host: str, told: Mapping[str, Any], proposal: Agreed | None) -> Mapping[str, Any]:
        self._number += 1
        is_whole = self._session is None
        before = {} if is_whole else self._answered
        changes = {name: value for name, value in told.items() if name not in before or before[name] != value}
        changes |= {name: None for name in before if name not in told}
        return self._send(
            {
                "host": host,
                "writer": self._writer,
                "number": self._number,
                "session": self._session,
                "since": self._version,
                "is_whole": is_whole,
                "changes": changes,
                "knows": None if self._agreed is None else [*self._agreed[0].key, self._agreed[1]],
                "proposal": None if proposal is None else proposal.to_json(),
            }
        )


def http_sender(url: str) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    """Hands letters to the collector (``python -m emberward.supervise.collector``) at a URL, on one connection."""
    parts = urllib.parse.urlsplit(url)

    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_S)

    def ask(body: bytes) -> bytes:
        connection.request("POST", parts.path or "/", body, {"Content-Type": "application/json"})
        return connection.getresponse().read(MAX_ANSWER_BYTES)

    def send(letter: dict[str, Any]) -> Mapping[str, Any]:
        body, was_open = json.dumps(letter).encode(), connection.sock is not None
        try:
            try:
                text = ask(body)
            except (ConnectionError, http.client.BadStatusLine):
                # A connection that is kept may have been closed meanwhile. A letter that comes twice is taken once.
                connection.close()
                if not was_open:
                    raise
                text = ask(body)
            said = json.loads(text)
        except (ValueError, http.client.HTTPException) as error:
            connection.close()
            raise OSError(f"the collector's answer is no JSON: {error}") from error
        except OSError:
            connection.close()
            raise
        if not isinstance(said, dict):
            raise OSError("the collector's answer is no JSON object")
        return said

    weakref.finalize(send, connection.close)
    return send


def open_mailbox(target: str) -> Mailbox:
    """The mailbox at `target`: a URL of a collector, or a folder."""
    if target.startswith(("http://", "https://")):
        return LetterMailbox(http_sender(target), clock=time.monotonic)
    return FolderMailbox(Path(target))


class Freshness:
    """How long ago each host last renewed its post, by our own clock: clocks of hosts differ."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, float | None]] = {}

    def silent_s(self, posts: Mapping[str, Mapping[str, Any]], *, now_s: float | None = None) -> dict[str, float]:
        """host -> seconds since its post's number last changed; of the hosts that have such a time: see `Heard`."""
        now_s = time.monotonic() if now_s is None else now_s
        for host, post in posts.items():
            number = post.get("number")
            if host not in self._seen:
                self._seen[host] = (number, None)
            elif self._seen[host][0] != number:
                self._seen[host] = (number, now_s)
        found = {}
        for host, post in posts.items():
            renewed_s = self._seen[host][1]
            if renewed_s is not None and post.get("has_left") is not True:
                found[host] = now_s - renewed_s
        return found
