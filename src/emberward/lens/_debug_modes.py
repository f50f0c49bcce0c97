"""Where a program switches a mode on that helps to find errors and costs time in each step. Pure.

[Note: debug modes]
Autograd's anomaly mode keeps the stack of each operation of the forward as text, and looks for NaN in each of the
backward (torch.autograd.set_detect_anomaly). What that takes is spread over all lines of a model; the line to change is
the one that switches it on: a call, or an argument by that name which a library is given.
"""

import ast
from collections.abc import Iterable, Iterator

from emberward.lens._samples import Instruction, RankSamples
from emberward.lens._source import Source, Sources, call_name

_SWITCHES = frozenset({"detect_anomaly", "set_detect_anomaly"})


def switched_on_at(users: Iterable[Instruction], rank: RankSamples, sources: Sources) -> str | None:
    """The one line of the program that switches anomaly mode on; None where there is none, or several."""
    files = [place.file for place in users] + [file for file, _, _ in rank.loop]
    found = [f"{source.file}:{line}" for source in sources.program(files) for line in _switches(source)]
    return found[0] if len(found) == 1 else None


def _switches(source: Source) -> Iterator[int]:
    # Asked of each file of a program for each line that takes time: its tree is looked through where it has the name.
    if not any(name in source.text for name in _SWITCHES):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg in _SWITCHES and not _is_off(node.value):
            yield node.value.lineno
        elif isinstance(node, ast.Call) and call_name(node) in _SWITCHES and not any(map(_is_off, node.args[:1])):
            yield node.lineno


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
