"""What a collector keeps of all hosts' posts, and what it tells each: pure.

[Note: changes]
A host writes which parts of its post have changed since the last letter that was answered, and learns which parts of
others' posts have changed since: a second in which nothing happens costs a host two short messages, however many hosts
there are. Letters may be lost, repeated or late. Each has a number of its writer, and one that is not newer than the
last is not taken; what was lost is in the next, as it counts from the last answer. A collector that begins anew has
another `session` and asks each for its whole post. How long a host has said nothing the collector's own clock tells:
clocks of hosts differ.

[Note: who judges]
All hosts that hear all posts come to the same verdict, so a few are enough: the first NUM_JUDGES by name of those that
write. Of many hosts each other one hears the judges' posts, with what they found, and where its own peers are: so a
second costs a collector as many short letters as there are hosts, and not their square.
"""

import bisect
from collections.abc import Mapping
from typing import Any

from emberward.supervise._agreement import Register
from emberward.supervise._nodes import FRESH_S, SILENT_S, peers_in

NUM_JUDGES = 8
PLACE = ("address", "port", "listener")
MAX_HOSTS = 4096
NUM_WRITERS = 4
"""Earlier agents of a host whose late letters are known as such."""


class PostOffice:
    """All hosts' posts. `take` each letter. See [Note: changes]."""

    def __init__(self, session: str) -> None:
        """`session` names this start of the collector; those of later starts sort behind."""
        self.session = session
        self._register = Register(session)
        self._names: list[str] = []
        """Of all hosts, sorted."""
        self._views: dict[str, tuple[bool, int]] = {}
        """host -> whether it hears all posts, and of how many hosts its peers were chosen."""
        self._peers: dict[str, tuple[str, ...]] = {}
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
        if letter.get("is_whole") is True:
            # What an earlier writer said and this one does not is told as gone.
            changes = {**dict.fromkeys(self._posts.get(host, ())), **changes}
        if (host in self._latest or len(self._latest) < MAX_HOSTS) and self._is_newer(host, writer, number):
            self._heard_s.pop(host, None)
            self._heard_s[host] = now_s
            self._note(host, {**changes, "renewed": True} if number > 1 or host in self._posts else changes)
            held = self._posts[host].get("agreed", (0, None))[1]
            self._register.take(host, held, letter.get("proposal"))
        judges = self._judges(now_s)
        since = letter.get("since") if is_known else 0
        answer = {
            "session": self.session,
            "version": self._version,
            "posts": self._since(host, judges, since if isinstance(since, int) else 0),
            "silent_s": self._silent_s(now_s, None if host in judges else judges),
            "judges": judges,
        }
        said = self._register.said()
        if said is not None and letter.get("knows") != [*said[0].key, said[1]]:
            answer |= {"agreed": said[0].to_json(), "counts": said[1]}
        return answer

    def _judges(self, now_s: float) -> list[str]:
        """See [Note: who judges]."""
        found = []
        for name in self._names:
            has_left = self._posts[name].get("has_left", (0, False))[1]
            if has_left is not True and now_s - self._heard_s[name] <= SILENT_S:
                found.append(name)
                if len(found) == NUM_JUDGES:
                    break
        return found

    def _silent_s(self, now_s: float, of: list[str] | None) -> dict[str, float]:
        """Of each host that has not written for FRESH_S, for how long; as much work as there are such hosts.

        `of`: of these alone.
        """
        found = {}
        for name, heard_s in self._heard_s.items() if of is None else ((name, self._heard_s[name]) for name in of):
            if now_s - heard_s > FRESH_S:
                found[name] = round(now_s - heard_s, 1)
            elif of is None:
                break
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
        if host not in self._latest:
            bisect.insort(self._names, host)
        new = {name: value for name, value in changes.items() if name not in post or post[name][1] != value}
        if new or host not in self._latest:
            self._version += 1
            post.update({name: (self._version, value) for name, value in new.items()})
            self._latest.pop(host, None)
            self._latest[host] = self._version

    def _since(self, host: str, judges: list[str], version: int) -> dict[str, dict[str, Any]]:
        """What `host` is to hear of what changed after `version`; all of it when it hears others than before."""
        is_judge = host in judges or host not in self._latest
        view = (is_judge, 0 if is_judge else len(self._names))
        if self._views.get(host) != view:
            version = 0
            self._views[host] = view
            self._peers[host] = () if is_judge else peers_in(self._names, bisect.bisect_left(self._names, host))
        found: dict[str, dict[str, Any]] = {}
        if is_judge:
            for name in reversed(self._latest):
                if self._latest[name] <= version:
                    break
                found[name] = self._news(name, version)
            return found
        peers = self._peers[host]
        for name in {*judges, host}:
            if self._latest.get(name, 0) > version:
                news = self._news(name, version)
                found[name] = {part: value for part, value in news.items() if name in peers or part not in PLACE}
        for name in peers:
            if name not in judges and self._latest[name] > version:
                found[name] = {part: value for part, value in self._news(name, version).items() if part in PLACE}
        return {name: news for name, news in found.items() if news}

    def _news(self, host: str, version: int) -> dict[str, Any]:
        return {name: value for name, (at, value) in self._posts[host].items() if at > version}
