"""Takes out of a text what must not leave the house: secrets, names of people and hosts, where files lie.

[Note: what stays]
A ticket must still be readable: of a path its last two parts stay, below ``site-packages`` all; hosts and addresses get
numbers, the same name the same number everywhere in a bundle. What looks like a secret goes whole. Digests of code and
configuration (hexadecimal after ``commit``, ``digest``, ``config``) are no secrets.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Hidden(StrEnum):
    """What sort of thing was taken out."""

    SECRET = "secret"
    PATH = "path"
    HOST = "host"
    ADDRESS = "address"
    PERSON = "person"


_WORDS = "token(?!s|ize|_types)|secret|passw(?:or)?d|passphrase|api_?key|access_?key|private_?key|credential"
_KEY = rf"(?:[A-Za-z0-9_]*(?:{_WORDS})[A-Za-z0-9_]*)"
_SECRETS: tuple[re.Pattern[str], ...] = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|pk-|xox[abeprs]-|AIza|npm_|pypi-)[A-Za-z0-9_\-]{12,}"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=\-]{8,}"),
    re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/=]{12,}"),
    re.compile(r"(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)"),
)
_ASSIGNED = re.compile(rf"(?i)(?P<key>\b{_KEY}[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&}}\]]{{4,}})")
_HARMLESS = re.compile(r"(?i)^(?:none|null|true|false|\d{1,9}(?:\.\d+)?|<.*>|\*+)$")
_MAIL = re.compile(r"\b[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+\b")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_LOCAL = ("127.", "0.0.0.0", "255.255.255.")
_PATH = re.compile(r"(?<![\w.~<>])/(?:[\w.@+%~\-]+/)+[\w.@+%~\-]+")
_KEPT_BELOW = re.compile(r"/(?:site-packages|dist-packages|lib/python3\.\d+)/")
_KEPT_PATHS = ("/proc/", "/dev/", "/sys/")


MIN_NAME = 2
"""A name shorter than this is a word of texts too: it is looked for where a name stands alone, or behind "host"."""


def _patterns_of(names: Collection[str]) -> Iterator[re.Pattern[str]]:
    """Where these names stand in a text, the longest first."""
    for is_short in (False, True):
        chosen = sorted((name for name in names if name and (len(name) < MIN_NAME) is is_short), key=len, reverse=True)
        known = "|".join(map(re.escape, chosen))
        if known and is_short:
            yield re.compile(rf"(?:(?<=\")(?:{known})(?=\")|(?<=\bhost )(?:{known})(?![\w\-]))")
        elif known:
            yield re.compile(rf"(?<![\w\-])(?:{known})(?![\w\-])")


@dataclass(slots=True)
class Redactor:
    """Redacts texts of one bundle, so that one name is one number in all of them.

    `hosts` and `people` are the names that are known to be such; `counts` tells how often each sort was taken out.
    """

    hosts: Collection[str] = ()
    people: Collection[str] = ()
    counts: Counter[Hidden] = field(default_factory=Counter)
    numbers: dict[tuple[Hidden, str], int] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """`text` without what must not leave. See [Note: what stays]."""
        for pattern in _SECRETS:
            text = pattern.sub(lambda _: self._hide(Hidden.SECRET), text)
        text = _ASSIGNED.sub(self._assigned, text)
        text = _MAIL.sub(lambda found: self._numbered(Hidden.PERSON, found.group()), text)
        text = _PATH.sub(self._path, text)
        for kind, names in ((Hidden.HOST, self.hosts), (Hidden.PERSON, self.people)):
            for pattern in _patterns_of(names):
                text = pattern.sub(self.numbered(kind), text)
        return _ADDRESS.sub(self._address, text)

    def numbered(self, kind: Hidden) -> Callable[[re.Match[str]], str]:
        """The replacement of known names of one sort."""
        return lambda found: self._numbered(kind, found.group())

    def _hide(self, kind: Hidden) -> str:
        self.counts[kind] += 1
        return f"<{kind.value}>"

    def _numbered(self, kind: Hidden, name: str) -> str:
        self.counts[kind] += 1
        number = self.numbers.setdefault((kind, name), 1 + sum(key[0] is kind for key in self.numbers))
        return f"<{kind.value} {number}>"

    def _assigned(self, found: re.Match[str]) -> str:
        value = found["value"]
        if _HARMLESS.match(value) or value.startswith("<"):
            return found.group()
        return found["key"] + self._hide(Hidden.SECRET)

    def _path(self, found: re.Match[str]) -> str:
        path = found.group()
        if path.startswith(_KEPT_PATHS):
            return path
        self.counts[Hidden.PATH] += 1
        if kept := _KEPT_BELOW.search(path):
            return "<path>" + path[kept.start() :]
        parts = path.split("/")
        return "<path>/" + "/".join(parts[-2:] if len(parts) > 3 else parts[-1:])

    def _address(self, found: re.Match[str]) -> str:
        address = found.group()
        if address.startswith(_LOCAL) or any(int(part) > 255 for part in address.split(".")):
            return address
        return self._numbered(Hidden.ADDRESS, address)

    def summary(self) -> Mapping[str, int]:
        """How often each sort was taken out."""
        return {kind.value: self.counts[kind] for kind in Hidden}
