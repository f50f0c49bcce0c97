"""What the program's text says about a finding's line: the line itself, and the conditions under which it is run.

The text is evidence only: a file that is absent, or that `LineOf` does not give, leaves the finding as it is.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from emberward.diagnose._calls import RankFlight
from emberward.diagnose._frames import Frame, LineOf, ProcessStacks, short_path, user_frame
from emberward.diagnose._parting import kept_away, left_the_loop
from emberward.diagnose._program import (
    ProgramLine,
    are_branches,
    callers,
    callers_in_common,
    is_same_everywhere,
    place_at,
)
from emberward.events import Site
from emberward.findings import Cause, Finding
from emberward.match import OddSide, TieBreak

MAX_CONDITIONS = 3
"""Most conditions that are shown with a line, the innermost first."""
MAX_TEXT = 120
_ELSE = "else of: "
MAX_SEARCHED = 64
"""Most ranks, and most calls of a group, that are searched for the whole paths of files."""


def conditions_around(place: ProgramLine, *, is_own: bool = False) -> tuple[tuple[int, str], ...]:
    """(line, header) of each condition around a place within its function, the innermost first: ``if``, ``elif``,
    ``else``, ``case``, ``except``. Loops are none, nor is the test of ``__main__``.

    `is_own`: only those that each rank decides by itself, as it does not decide one on the count of turns.
    """
    lines = place.text.splitlines()
    found: list[tuple[int, str]] = []
    for step in place.steps:
        if is_own and is_same_everywhere(step.owner, place.steps):
            continue
        match step.owner:
            case ast.If(lineno=line) as node if not _is_main_test(node):
                is_elif = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
                if step.part == "body" or not is_elif:
                    found.append((line, ("" if step.part == "body" else _ELSE) + _header(lines, line)))
            case ast.match_case(pattern=pattern, body=body):
                found.append((body[0].lineno - 1, f"case {ast.unparse(pattern)}"))
            case ast.ExceptHandler(lineno=line):
                found.append((line, _header(lines, line)))
    return tuple(reversed(found))


def _is_main_test(node: ast.If) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))


def _header(lines: list[str], number: int) -> str:
    return lines[number - 1].strip().rstrip(":")[:MAX_TEXT] if 0 < number <= len(lines) else "?"


def source_evidence(site: str | None, line_of: LineOf) -> tuple[str, ...]:
    """Lines for people: the text of ``file:line``, and each condition around it, also where its function is called.

    Empty without the file. Callers are followed as long as each function is called at one line of the file alone.
    """
    frame = _frame(site)
    text = None if frame is None else line_of(frame)
    if frame is None or text is None or not text.strip():
        return ()
    rows = [f"{site} reads: {text.strip()[:MAX_TEXT]}"]
    name, _, _ = (site or "").rpartition(":")
    for at in callers(place_at(frame, line_of)).values():
        rows += [f"{name}:{line} holds there: {header}" for line, header in conditions_around(at)]
    return tuple(rows[: 1 + MAX_CONDITIONS])


def _frame(site: str | None) -> Frame | None:
    file, _, line = (site or "").rpartition(":")
    return Frame(function="", file=file, line=int(line)) if file and line.isdigit() else None


def with_source(finding: Finding, line_of: LineOf) -> Finding:
    """The finding, whose evidence holds the text of its line and the conditions around it, once."""
    rows = source_evidence(finding.site, line_of)
    if not rows or any(line.startswith(f"{finding.site} reads: ") for line in finding.evidence):
        return finding
    told = "\n".join(finding.evidence)
    # A condition that decided the verdict is said there already.
    new = [row for row in rows if row == rows[0] or f"({row.partition(' ')[0]})" not in told]
    return replace(finding, evidence=(*finding.evidence, *new))


def tie_break_by_text(line_of: LineOf) -> TieBreak:
    """Which of two lines is the odd one by the program's text. See [Note: two sides]."""

    def odd(first: Site, second: Site | None) -> OddSide | None:
        left = _named(first, line_of)
        if second is None:
            guards = _guards(left, line_of)
            return _guarded(True, first, guards[0]) if guards else None
        right = _named(second, line_of)
        pair = _in_one_function(left, right, line_of)
        if pair is None:
            return None
        for is_first, (now, inside) in ((True, (left, right)), (False, (right, left))):
            gone = left_the_loop((now,), (inside,), line_of)
            if gone is not None:
                return OddSide(is_first, gone[2], f"{now.site} lies behind the loop in which the other side still is")
        if are_branches(*pair):
            return None
        own, other = (_guards(frame, line_of, to=at) for frame, at in zip((left, right), pair, strict=True))
        only, rest = ([row for row in rows if row not in others] for rows, others in ((own, other), (other, own)))
        if bool(only) != bool(rest):
            return _guarded(bool(only), first if only else second, (only or rest)[0])
        passed = (
            [] if only else [kept_away((here,), (there,), line_of) for here, there in ((left, right), (right, left))]
        )
        if not any(passed) or all(passed):
            return None
        is_first, lines = (True, passed[0]) if passed[0] else (False, passed[1])
        why = f"a choice at {lines[-1].site} leads past the other side's call, and none past this one"
        return OddSide(is_first, Cause.SKIPPED_COLLECTIVE, why)

    return odd


def _named(site: Site, line_of: LineOf) -> Frame:
    """The line with its function by the text, where nobody told it."""
    frame = Frame(function=site.function or "", file=site.file, line=site.line)
    place = None if frame.function else place_at(frame, line_of)
    return frame if place is None else replace(frame, function="<module>" if place.home is None else place.home.name)


def _guards(frame: Frame, line_of: LineOf, *, to: ProgramLine | None = None) -> list[tuple[int, str]]:
    """The conditions around a line and its calls, outwards to place `to` of the function that both sides share."""
    rows: list[tuple[int, str]] = []
    for at in callers(place_at(frame, line_of)).values():
        rows += conditions_around(at, is_own=True)
        if at == to:
            break
    return rows


def _guarded(is_first: bool, site: Site, condition: tuple[int, str]) -> OddSide:
    """One side alone stands under a condition, and its call is one too many; in an ``else`` the other left it out."""
    line, header = condition
    name = short_path(site.file)
    why = f"{name}:{site.line} is run only under: {header} ({name}:{line}); the other side's call is not"
    if header.startswith(_ELSE):
        return OddSide(not is_first, Cause.SKIPPED_COLLECTIVE, why)
    return OddSide(is_first, Cause.EXTRA_COLLECTIVE, why)


def _in_one_function(left: Frame, right: Frame, line_of: LineOf) -> tuple[ProgramLine, ProgramLine] | None:
    """The places in one function from which two lines of a file are reached; None when they are one line, or none."""
    if left.file != right.file or left.line == right.line:
        return None
    here, there = place_at(left, line_of), place_at(right, line_of)
    if here is None or there is None or here.home is not there.home:
        pair = callers_in_common((left,), (right,), line_of)
        here, there = (None, None) if pair is None else (place_at(frame, line_of) for frame in pair)
    return None if here is None or there is None else (here, there)


def by_short_name(
    flights: Mapping[int, RankFlight], stacks: Sequence[ProcessStacks], line_of: LineOf, *, files: Sequence[str] = ()
) -> LineOf:
    """`line_of` for frames whose file is said as findings say it: calls, stacks and `files` tell the whole path."""
    whole = {short_path(file): file for file in files}
    for flight in list(flights.values())[:MAX_SEARCHED]:
        for part in flight.groups.values():
            calls = [part.as_call(entry) for entry in part.entries[-MAX_SEARCHED:]]
            users = [frame for call in calls if (frame := user_frame(call.frames)) is not None]
            whole |= {short_path(frame.file): frame.file for frame in users}
    for process in stacks[:MAX_SEARCHED]:
        frames = () if process.main is None else process.main.frames
        whole |= {short_path(frame.file): frame.file for frame in frames if not frame.is_library}

    def found(frame: Frame) -> str | None:
        file = whole.get(frame.file)
        text = None if file is None else line_of(replace(frame, file=file))
        return line_of(frame) if text is None else text

    return found
