"""A probe is a command behind one contract; how a member that ran it ended is a result, whatever it was. Pure.

[Note: the probe contract]
The command is started once for each device of a set, all at the same time, with RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR, MASTER_PORT, EMBERWARD_HOST and EMBERWARD_DEVICES in its environment. EMBERWARD_DEVICES are the numbers of
that host's devices in the set, by commas; the member's own is the one at place LOCAL_RANK. It prints one JSON object
with ``ok`` and, as it likes, ``value``, ``unit``, ``higher_is_better`` (true when absent), ``detail``, ``busy``,
``exercised`` ("all" or "ring": which links its success clears) and ``tries`` (how many tries its one answer stands
for). Lines before the object are ignored.
"""

import json
import math
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from emberward.doctor._fleet import Links, Talk
from emberward.findings import ConfigError

MAX_TRIES = 10_000
MAX_WORDS = 200
"""Characters of a member's last line that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A command (words, no shell) with its name and on which sets it makes sense. `links`: what it uses by its kind."""

    name: str
    command: tuple[str, ...]
    talk: Talk = Talk.ANY
    links: Links | None = None
    is_builtin: bool = False


def parse_probe(text: str) -> Probe:
    """The probe of ``--probe NAME=COMMAND``. Raises ConfigError C113 when it has no name or no command."""
    name, mark, command = text.partition("=")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        words, command = (), f"{command} ({error})"
    if not mark or not name.strip() or not words:
        raise ConfigError(
            "a probe has a name and a command",
            code="C113",
            where=f"--probe {text}",
            expected="NAME=COMMAND",
            found=text or "nothing",
            next="emberward doctor --probe burn='python burn.py'",
        )
    return Probe(name=name.strip(), command=words)


class End(StrEnum):
    """How a member ended."""

    OK = "ok"
    BUSY = "busy"
    WRONG = "wrong answer"
    SIGNAL = "killed by a signal"
    EXIT = "exit code"
    LATE = "no answer in time"
    RUBBISH = "no JSON object"
    UNREACHED = "host not reached"
    STOPPED = "stopped after another member failed"
    FULL = "wrote too much"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What one member of a test gave. `text`: how it ended, in a line. `detail`: what it said when it was well."""

    end: End
    text: str
    value: float | None = None
    unit: str = ""
    higher_is_better: bool = True
    links: Links | None = None
    tries: int = 1
    detail: str = ""


def read_member(*, code: int | None, out: bytes, errors: bytes, limit_s: float, is_remote: bool) -> Member:
    """The result of a member whose process ended with `code` (negative for a signal, None when its time was up)."""
    last = last_words(errors)
    answer = _answer(out)
    if code is None or (is_remote and code in (124, 137)):
        return Member(end=End.LATE, text=_said(f"no answer in {limit_s:g} s", last))
    if code < 0:
        return Member(end=End.SIGNAL, text=_said(_signal(-code), last))
    if is_remote and code == 255 and answer is None:
        return Member(end=End.UNREACHED, text=_said("host not reached", last))
    if is_remote and code > 128 and answer is None:
        return Member(end=End.SIGNAL, text=_said(_signal(code - 128), last))
    if answer is None:
        what = f"exit code {code}" if code else "exit code 0 without a JSON object"
        return Member(end=End.EXIT if code else End.RUBBISH, text=_said(what, last or last_words(out)))
    detail = str(answer.get("detail") or "")[:MAX_WORDS]
    if answer.get("busy") is True:
        return Member(end=End.BUSY, text=_said("busy", detail))
    if answer.get("ok") is not True:
        return Member(end=End.WRONG, text=_said("not ok", detail))
    if code:
        return Member(end=End.EXIT, text=_said(f"said ok and ended with exit code {code}", last))
    value = answer.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    used = answer.get("exercised")
    tries = answer.get("tries")
    return Member(
        end=End.OK,
        text=_said("ok", detail),
        value=float(value) if is_number else None,  # type: ignore[arg-type]
        unit=str(answer.get("unit") or ""),
        higher_is_better=answer.get("higher_is_better") is not False,
        links=Links(used) if used in ("all", "ring") else None,
        tries=min(tries, MAX_TRIES) if isinstance(tries, int) and tries > 0 else 1,
        detail=detail,
    )


def _answer(out: bytes) -> dict[str, Any] | None:
    """The last line that is a JSON object, or all of the output as one; None when there is none."""
    text = out.decode("utf-8", "replace")
    for part in (*reversed(text.strip().splitlines()[-50:]), text):
        if not part.strip().startswith("{"):
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and ("ok" in value or "busy" in value):
            return value
    return None


def last_words(data: bytes) -> str:
    """The last line with letters in it, cut to MAX_WORDS."""
    lines = [line.strip() for line in data[-8192:].decode("utf-8", "replace").splitlines()]
    found = next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")
    return "".join(c if c.isprintable() else "?" for c in found)[:MAX_WORDS]


def _signal(number: int) -> str:
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"


def _said(what: str, words: str) -> str:
    return f"{what}: {words}" if words else what


def worst_first(members: Sequence[Member]) -> list[Member]:
    """Members whose own end was a failure, the most telling first."""
    order = (End.SIGNAL, End.WRONG, End.EXIT, End.LATE, End.UNREACHED, End.FULL, End.RUBBISH)
    return sorted((m for m in members if m.end in order), key=lambda m: order.index(m.end))
