"""Files of other tools that explain does not read: told by their form, with the tool whose output it does read."""

import re
from dataclasses import dataclass

from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_HEAD = 200_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignForm:
    """A known form. `is_stack`: it holds stacks, so it is worth a word wherever it lies."""

    what: str
    next_step: str
    is_stack: bool = False


_PY_SPY = "py-spy dump --native --pid PID > stacks.txt, then emberward explain stacks.txt"
_TEXTS = (
    (
        re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?\S.* \(.*\) (?:from|at) \S+\s*$", re.MULTILINE),
        ForeignForm(what="a backtrace of gdb: it tells C functions and no line of the program", next_step=_PY_SPY,
                    is_stack=True),
    ),
    (
        re.compile(r"^\s*frame #\d+: 0x[0-9a-f]+ ", re.MULTILINE),
        ForeignForm(what="a backtrace of lldb: it tells C functions and no line of the program", next_step=_PY_SPY,
                    is_stack=True),
    ),
    (
        re.compile(r"^Traceback for thread \d+ .*\(most recent call last\):", re.MULTILINE),
        ForeignForm(what="stacks of pystack", next_step=_PY_SPY, is_stack=True),
    ),
)  # fmt: skip
_MAGICS = (
    (b"\x7fELF", ForeignForm(what="a core file or a program", next_step=_PY_SPY)),
    (b"(\xb5/\xfd", ForeignForm(what="packed with zstd", next_step="unzstd FILE, then explain what it holds")),
    (b"SQLite format 3", ForeignForm(what="a report of Nsight or another SQLite file", next_step=_PY_SPY)),
    (b"\x89PNG", ForeignForm(what="a picture", next_step="explain the text that it shows")),
    (b"%PDF", ForeignForm(what="a PDF", next_step="explain the text that it shows")),
)


def foreign_form(data: bytes) -> ForeignForm | None:
    """The form of another tool that the bytes have; None when it is not known."""
    for magic, form in _MAGICS:
        if data.startswith(magic):
            return form
    text = data[:_HEAD].decode("utf-8", errors="replace")
    return next((form for pattern, form in _TEXTS if pattern.search(text)), None)


def foreign_finding(path: str, form: ForeignForm) -> Finding:
    """A warning (H161) about such a file."""
    return Finding(
        code="H161",
        severity=Severity.WARNING,
        kind=Kind.RESOURCE,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"{path} is {form.what}",
        evidence=("expected  flight-recorder dumps, py-spy or faulthandler stacks, logs, RAS reports",),
        next=form.next_step,
    )


def text_of_bytes(data: bytes) -> str:
    """The text in the bytes, without colours: UTF-8, or UTF-16 with its mark, as editors of other systems write."""
    is_wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")
    return _COLOUR.sub("", text) if "\x1b" in text else text
