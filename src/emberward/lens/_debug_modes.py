"""Where a program switches a mode on that helps to find errors and costs time in each step. Pure.

[Note: debug modes]
Autograd's anomaly mode keeps the stack of each operation of the forward as text, and looks for NaN in each of the
backward (torch.autograd.set_detect_anomaly): `isnan`, `_is_any_true` and a read of each result of a node, which no
formula of a backward does else, and which the observed steps show. What that takes is spread over all lines of a model;
the line to change is the one that switches it on: a call, or an argument by that name which a library is given, in a
dictionary too.

Libraries have modes of their own, of which the frames tell: transformers looks at what each module is given and gives
for numbers that are too large (`debug="underflow_overflow"`), and torch's distributions check their arguments and
samples unless `validate_args` is off, which is for debugging (torch/distributions/distribution.py: on by `__debug__`).

At its debug level DETAIL torch.distributed compares each collective between the ranks before it begins: a barrier and
two gathers (ProcessGroupWrapper.cpp, ``runCollectiveChecks``), inside the operation that issues the call, which else
returns at once. How long that lasts on the rank that comes last is what it takes.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from emberward.findings import Cause
from emberward.lens._operations import Operation, RankOperations
from emberward.lens._paces import pace_of
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, Instruction, RankSamples
from emberward.lens._source import Source, Sources, call_name
from emberward.lens._spans import both
from emberward.lens._waste import Waste
from emberward.lens._work import NODE

_LEVELS = frozenset({"set_debug_level", "TORCH_DISTRIBUTED_DEBUG"})
_DETAIL = "DETAIL"
_ANOMALY = frozenset({"detect_anomaly", "set_detect_anomaly"})
MODES = (
    (r"torch/fx/traceback\.py$", frozenset({"format_stack"}), _ANOMALY),
    (r"transformers/debug_utils\.py$", None, frozenset({"DebugUnderflowOverflow", "debug"})),
    (r"torch/distributions/constraints\.py$", None, frozenset[str]()),
    (r"torch/distributions/distribution\.py$", frozenset({"__init__", "_validate_sample"}), frozenset[str]()),
)
"""Files and functions that run in a debug mode alone, and what switches it on; empty: it is on unless it is off."""
CHECKPOINTING = frozenset(
    {"gradient_checkpointing", "gradient_checkpointing_enable", "set_grad_checkpointing", "activation_checkpointing"}
)
"""By which libraries (transformers, diffusers, timm, accelerate) are asked to compute forwards again."""


def mode_of(frames: Iterable[Instruction]) -> frozenset[str]:
    """What switches the mode on in which these frames run; empty where nothing has to."""
    known = (switches for place in frames for pattern, _, switches in MODES if re.search(pattern, place.file))
    return next(known, frozenset())


def switched_on_at(
    users: Iterable[Instruction], rank: RankSamples, sources: Sources, switches: frozenset[str] = _ANOMALY
) -> str | None:
    """The one line of the program that switches a mode on, anomaly mode by default; None for none, or several."""
    files = [place.file for place in users] + [file for file, _, _ in rank.loop]
    found = [f"{source.file}:{line}" for source in sources.program(files) for line in _switched(source, switches)]
    return found[0] if len(found) == 1 else None


def checks_of_calls(
    operations: Sequence[RankOperations], samples: Sequence[RankSamples], sources: Sources
) -> tuple[Waste, ...]:
    """What the ranks' collectives are longer by for being compared; none where they are not, or it costs little."""
    ranks = [rank for rank in operations if rank.checks_calls and rank.num_steps and rank.step_s]
    sampled = [each for each in samples if each.num_steps]
    if not ranks or not sampled:
        return ()
    asked = [[op for op in rank.operations if _is_issue(op, rank)] for rank in ranks]
    lasted = [min(op.ended_s - op.began_s for op in one) for one in zip(*asked, strict=False)]
    pace = pace_of(ranks[0], next((each for each in sampled if each.rank == ranks[0].rank), None))
    cost_s = pace.of((op.began_s, op.began_s + each) for op, each in zip(asked[0], lasted, strict=False))
    share = cost_s / pace.step_s
    if share < MIN_GAIN or cost_s < MIN_COST_S:
        return ()
    lines = [
        f"{source.file}:{line}"
        for source in sources.program(file for each in sampled for file, _, _ in each.loop)
        for line in _levels(source)
    ]
    return (
        Waste(
            cause=Cause.DEBUG_MODE,
            site=lines[0] if len(set(lines)) == 1 else None,
            cost_s=cost_s,
            share=share,
            ranks=tuple(rank.rank for rank in ranks),
            evidence=(f"{len(asked[0]) / ranks[0].num_steps:.0f} calls a step at torch.distributed's level DETAIL",),
        ),
    )


def _is_issue(op: Operation, rank: RankOperations) -> bool:
    return op.thread == rank.main and not op.is_async and op.name.startswith("c10d::")


def _levels(source: Source) -> Iterator[int]:
    """Lines that ask for the level, or name it for the environment."""
    if not any(name in source.text for name in _LEVELS):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr | ast.Assign):
            words = _words_of(node)
            if words & _LEVELS and _DETAIL in words:
                yield node.lineno


def _words_of(node: ast.AST) -> set[str]:
    """The names, attributes and strings of a statement."""
    kinds = {ast.Attribute: "attr", ast.Name: "id", ast.Constant: "value"}
    return {str(getattr(each, kinds[type(each)])) for each in ast.walk(node) if type(each) in kinds}


def checks_s(rank: RankOperations, sampled: RankSamples) -> float:
    """Seconds of a sampled step."""
    main = [op for op in rank.operations if op.thread == rank.main and not op.is_async]
    checks = [(op.began_s, op.ended_s) for op in main if op.name in _CHECKS]
    nodes = [(op.began_s, op.ended_s) for op in main if op.name.startswith(NODE)]
    return pace_of(rank, sampled).of(both(checks, nodes))


_CHECKS = frozenset({"aten::isnan", "aten::_is_any_true", "aten::any", "aten::item", "aten::is_nonzero"})


def _switched(source: Source, switches: frozenset[str]) -> Iterator[int]:
    # Asked of each file of a program for each line that takes time: its tree is looked through where it has the name.
    if not any(name in source.text for name in switches):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg in switches and not _is_off(node.value):
            yield node.value.lineno
        elif isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            # An entry of a dictionary may be given as an argument.
            yield from (
                value.lineno
                for key, value in named
                if isinstance(key, ast.Constant) and key.value in switches and not _is_off(value)
            )
        elif isinstance(node, ast.Call) and call_name(node) in switches and not any(map(_is_off, node.args[:1])):
            yield node.lineno


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
