"""Where the agents of several hosts leave their posts: a folder that all share, or a collector reached by HTTP.

Whoever reads the posts judges them, by the same pure rules: every host comes to the same verdict, and no host is needed
for it. The way to the mailbox should be another one than the job's link.
"""

import json
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from emberward.report import read_json, write_json
from emberward.runs import host_file_name

LIMIT_S = 3.0
MAX_HOSTS = 4096
MAX_ANSWER_BYTES = 64 << 20

Posts = dict[str, dict[str, Any]]


class Mailbox(Protocol):
    """Takes a host's post and gives everybody's."""

    def exchange(self, host: str, post: Mapping[str, Any]) -> Posts:
        """All posts by host, ours included. Raises OSError when the mailbox cannot be reached."""
        ...


class FolderMailbox:
    """One file a host in a shared folder. A file system that stands still holds its caller up: call it from a child."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def exchange(self, host: str, post: Mapping[str, Any]) -> Posts:
        """See `Mailbox`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._folder / f"{host_file_name(host)}.json", {"host": host, **post})
        found: Posts = {}
        for path in sorted(self._folder.glob("*.json"))[:MAX_HOSTS]:
            said = read_json(path)
            if said is not None and isinstance(said.get("host"), str):
                found[said["host"]] = said
        return found


class HttpMailbox:
    """A collector (``python -m emberward.supervise.collector``) at a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        # No proxy: the collector is inside the cluster.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def exchange(self, host: str, post: Mapping[str, Any]) -> Posts:
        """See `Mailbox`."""
        data = json.dumps({"host": host, **post}).encode()
        request = urllib.request.Request(self._url, data=data, headers={"Content-Type": "application/json"})
        with self._opener.open(request, timeout=LIMIT_S) as answer:
            try:
                said = json.loads(answer.read(MAX_ANSWER_BYTES))
            except ValueError as error:
                raise OSError(f"the collector's answer is no JSON: {error}") from error
        return said if isinstance(said, dict) else {}


def open_mailbox(target: str) -> Mailbox:
    """The mailbox at `target`: a URL of a collector, or a folder."""
    if target.startswith(("http://", "https://")):
        return HttpMailbox(target)
    return FolderMailbox(Path(target))


class Freshness:
    """How long ago each host last renewed its post, by our own clock: clocks of hosts differ."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, float | None]] = {}

    def silent_s(self, posts: Mapping[str, Mapping[str, Any]], *, now_s: float | None = None) -> dict[str, float]:
        """host -> seconds since its post's number last changed.

        Hosts that said that they left are not in it, nor those that were never seen to renew their post: it may be of
        an earlier job.
        """
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
