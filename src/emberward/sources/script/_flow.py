"""Reads what a rank executed and gives it the program's structure: statements instead of lines, loops with rounds."""

import ast
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.match import Executed, Frame, Item, Loop, Step


@dataclass(slots=True)
class Structure:
    """A file's statements: for each line the first of its statement; for a loop's header the lines of its body."""

    first: dict[int, int] = field(default_factory=dict)
    loops: dict[int, tuple[int, int]] = field(default_factory=dict)


def structure_of(text: str) -> Structure:
    """The structure of a program; empty for a text that is none."""
    found = Structure()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last = node.end_lineno or node.lineno
        if isinstance(body, list) and body:
            last = max(node.lineno, body[0].lineno - 1)
        for line in range(node.lineno, last + 1):
            found.first[line] = max(node.lineno, found.first.get(line, 0))
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            found.loops[node.lineno] = (node.body[0].lineno, node.body[-1].end_lineno or node.lineno)
    return found


def read_flow(path: Path, folders: Sequence[Path]) -> Executed | None:
    """What the rank of a file executed; None without the file. Names of sources are relative to one of `folders`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    reader = _Reader({number: index for index, number in enumerate(data["events"])}, folders)
    programs = tuple(reader.frame(each) for each in data["root"][2:] if len(each) > 1)
    root = Frame(file="", function="", items=(Step(line=0, inner=programs),))
    return Executed(program=root, num_real=sum(number < data["num_real"] for number in data["events"]))


class _Reader:
    """Turns lists into frames. See `StatementRecorder`."""

    def __init__(self, indices: Mapping[int, int], folders: Sequence[Path]) -> None:
        self._indices = indices
        self._folders = folders
        self._structures: dict[str, Structure] = {}

    def frame(self, data: Sequence[Any]) -> Frame:
        """One run of a function."""
        file, function, *items = data
        if file not in self._structures:
            self._structures[file] = structure_of(self._text_of(file))
        structure = self._structures[file]
        steps = self._steps(items, structure)
        return Frame(file=file, function=function, items=_folded(steps, structure.loops))

    def _text_of(self, file: str) -> str:
        for folder in self._folders:
            with contextlib.suppress(OSError, ValueError):
                return (folder / file).read_text(encoding="utf-8")
        return ""

    def _steps(self, items: Sequence[Any], structure: Structure) -> list[Step]:
        """The statements in order: lines of one statement are one, and so is what a block's end executes again."""
        found: list[tuple[int, bool, list[Frame | int]]] = []
        for item in items:
            if isinstance(item, int):
                line = structure.first.get(abs(item), abs(item))
                if not found or found[-1][0] != line:
                    found.append((line, item < 0, []))
                continue
            if not found:
                found.append((0, False, []))
            if len(item) > 1:
                found[-1][2].append(self.frame(item))
            elif item[0] in self._indices:
                found[-1][2].append(self._indices[item[0]])
        return [Step(line=line, is_new=is_new, inner=tuple(inner)) for line, is_new, inner in found]


def _folded(steps: Sequence[Step], loops: Mapping[int, tuple[int, int]]) -> tuple[Item, ...]:
    """The statements, with those of a loop as rounds of it."""
    found: list[Item] = []
    at = 0
    while at < len(steps):
        header = steps[at].line
        if header not in loops:
            found.append(steps[at])
            at += 1
            continue
        first, last = loops[header]
        end = at
        while end < len(steps) and (steps[end].line == header or first <= steps[end].line <= last):
            end += 1
        inner = {line: span for line, span in loops.items() if line != header}
        found.append(Loop(line=header, rounds=tuple(_rounds(steps[at:end], header, first, inner))))
        at = end
    return tuple(found)


def _rounds(
    steps: Sequence[Step], header: int, first: int, inner: Mapping[int, tuple[int, int]]
) -> list[tuple[Item, ...]]:
    """A round begins at the header, or at the body's first statement where the header has no test (``while True``)."""
    rounds: list[list[Step]] = []
    for step in steps:
        if step.line == header:
            rounds.append([])
        elif step.line == first and first not in inner and any(each.line == first for each in rounds[-1]):
            rounds.append([Step(line=header)])
        rounds[-1].append(step)
    return [_folded(each, inner) if each[0].line != header else (each[0], *_folded(each[1:], inner)) for each in rounds]
