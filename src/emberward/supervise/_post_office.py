"""What a collector keeps of all hosts' posts, and what it tells each: pure.

[Note: changes]
A host writes which parts of its post have changed since the last letter that was answered, and learns which parts of
others' posts have changed since: a second in which nothing happens costs a host two short messages, however many hosts
there are. Letters may be lost, repeated or late. Each has a number of its writer, and one that is not newer than the
last is not taken; what was lost is in the next, as it counts from the last answer. A collector that begins anew has
another `session` and asks each for its whole post. How long a host has said nothing the collector's own clock tells:
clocks of hosts differ.
"""

from collections.abc import Mapping
from typing import Any

FRESH_S = 2.0
MAX_HOSTS = 4096
NUM_WRITERS = 4
"""Earlier agents of a host whose late letters are known as such."""


class PostOffice:
    """All hosts' posts. `take` each letter. See [Note: changes]."""

    def __init__(self, session: str) -> None:
        """`session` names this start of the collector."""
        self.session = session
        self._posts: dict[str, dict[str, tuple[int, Any]]] = {}
        self._latest: dict[str, int] = {}
        """host -> the version of its last change; the host that changed last comes last."""
        self._heard_s: dict[str, float] = {}
        """host -> when it last wrote; the host that wrote last comes last."""
        self._writers: dict[str, list[tuple[str, int]]] = {}
        """host -> (writer, number of its last letter), the newest writer last."""
        self._version = 0

    def take(self, letter: Mapping[str, Any], *, now_s: float) -> dict[str, Any]:
        """The answer to a letter. Raises ValueError for what is none."""
        host, writer, number, changes = (letter.get(name) for name in ("host", "writer", "number", "changes"))
        if not (isinstance(host, str) and isinstance(writer, str) and isinstance(number, int)):
            raise ValueError("a letter has host, writer and number")
        if not isinstance(changes, Mapping):
            raise ValueError("a letter has changes")
        is_known = letter.get("session") == self.session
        if not is_known and letter.get("is_whole") is not True:
            return {"session": self.session, "wants_whole": True}
        if (host in self._posts or len(self._posts) < MAX_HOSTS) and self._is_newer(host, writer, number):
            self._heard_s.pop(host, None)
            self._heard_s[host] = now_s
            self._note(host, {**changes, "renewed": True} if number > 1 or host in self._posts else changes)
        since = letter.get("since") if is_known else 0
        return {
            "session": self.session,
            "version": self._version,
            "posts": self._since(since if isinstance(since, int) else 0),
            "silent_s": self._silent_s(now_s),
        }

    def _silent_s(self, now_s: float) -> dict[str, float]:
        """Of each host that has not written for FRESH_S, for how long; as much work as there are such hosts."""
        found = {}
        for name, heard_s in self._heard_s.items():
            if now_s - heard_s <= FRESH_S:
                break
            found[name] = round(now_s - heard_s, 1)
        return found

    def _is_newer(self, host: str, writer: str, number: int) -> bool:
        writers = self._writers.setdefault(host, [])
        if writers and writers[-1][0] == writer:
            if number <= writers[-1][1]:
                return False
            writers[-1] = (writer, number)
            return True
        if any(name == writer for name, _ in writers):
            return False
        writers.append((writer, number))
        del writers[:-NUM_WRITERS]
        self._posts.pop(host, None)
        return True

    def _note(self, host: str, changes: Mapping[str, Any]) -> None:
        post = self._posts.setdefault(host, {})
        new = {name: value for name, value in changes.items() if name not in post or post[name][1] != value}
        if new or host not in self._latest:
            self._version += 1
            post.update({name: (self._version, value) for name, value in new.items()})
            self._latest.pop(host, None)
            self._latest[host] = self._version

    def _since(self, version: int) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for host in reversed(self._latest):
            if self._latest[host] <= version:
                break
            found[host] = {name: value for name, (at, value) in self._posts[host].items() if at > version}
        return found
