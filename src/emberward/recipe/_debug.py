"""Debug operations, as text in a recipe or on the command line: ``print blocks.0.mlp step=0-2 rank=1``.

[Note: debug operations]
A line is a verb, a pattern (as of file names) over the names of modules and parameters as checkpoints have them, and
options. A module is looked at where its output is made (`of=grad`: where the gradient of its output is), a parameter at
the beginning of the step. ``print``, ``finite``, ``range`` and ``stop`` look at what a rank holds and make no call, so
that the proved program stays as it is. ``equal`` makes one all-gather for each match: it runs in every step and
micro-batch and on all ranks, so that the dry run makes it too and the proof holds.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase

from emberward.findings import ConfigError
from emberward.layout import Axis
from emberward.recipe._names import closest


class DebugVerb(StrEnum):
    """What a debug operation does. See [Note: debug operations]."""

    PRINT = "print"
    FINITE = "finite"
    RANGE = "range"
    EQUAL = "equal"
    STOP = "stop"


class DebugTarget(StrEnum):
    """Which tensor of a module."""

    OUTPUT = "output"
    GRAD = "grad"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugOperation:
    """One debug operation. Ranks, steps (from 0) and micro-batches that are None are all. `text`: as it was written."""

    text: str
    verb: DebugVerb
    pattern: str
    of: DebugTarget = DebugTarget.OUTPUT
    ranks: frozenset[int] | None = None
    steps: frozenset[int] | None = None
    micro_batches: frozenset[int] | None = None
    low: float = -math.inf
    high: float = math.inf
    axis: Axis | None = None

    def is_on(self, *, step: int, micro_batch: int | None) -> bool:
        """Whether it is asked for there; a micro-batch of None is the beginning of the step."""
        in_step = self.steps is None or step in self.steps
        return in_step and (self.micro_batches is None or micro_batch is None or micro_batch in self.micro_batches)


_AXES = {"dp": Axis.DP_SHARD, "tp": Axis.TP}
_OPTIONS = {"step": "steps", "mb": "micro_batches", "rank": "ranks"}
_KEYS = (*_OPTIONS, "of", "min", "max", "axis")
_MOST = 1_000_000
"""Largest number in a list of ranks, steps or micro-batches."""


def parse_debug(text: str) -> DebugOperation:
    """The operation that `text` asks for. Raises ConfigError C103 with what is allowed."""
    words = text.split()
    verbs = [verb.value for verb in DebugVerb]
    if not words or words[0] not in verbs:
        near = closest(words[0], verbs) if words else ()
        raise _wrong(text, f"a verb first: {', '.join(verbs)}", next=f"did you mean {near[0]}?" if near else None)
    if len(words) < 2 or "=" in words[1]:
        raise _wrong(text, f"the name of a module or parameter after {words[0]}, * and ? stand for any letters")
    options: dict[str, str] = {}
    for word in words[2:]:
        key, equals, value = word.partition("=")
        if key not in _KEYS or not equals or not value:
            near = closest(key, _KEYS)
            raise _wrong(
                text, f"options {', '.join(_KEYS)} as key=value", next=f"did you mean {near[0]}=?" if near else None
            )
        options[key] = value
    verb = DebugVerb(words[0])
    operation = DebugOperation(
        text=text,
        verb=verb,
        pattern=words[1],
        of=_member(text, options.get("of", "output")),
        axis=_axis(text, options.get("axis")),
        low=_number(text, options.get("min"), -math.inf),
        high=_number(text, options.get("max"), math.inf),
        **{field: _numbers(text, options[key]) for key, field in _OPTIONS.items() if key in options},
    )
    _require_sense(text, verb, options)
    return operation


def require_debug(operations: Sequence[DebugOperation], names: Collection[str], *, num_ranks: int) -> None:
    """Raises ConfigError C117 for a pattern that no parameter and no module that holds one has, and for a rank that the
    run lacks. `names`: those of the model's parameters."""
    modules = {name[:at] for name in names for at, letter in enumerate(name) if letter == "."}
    known = sorted({*names, *modules})
    for operation in operations:
        if not any(fnmatchcase(name, operation.pattern) for name in known):
            near = get_close_matches(operation.pattern, known, n=3, cutoff=0.3)
            raise ConfigError(
                f"no parameter, and no module that holds one, is called {operation.pattern}",
                code="C117",
                where="debug",
                expected="a pattern of such names" + (f", as {', '.join(near)}" if near else ""),
                found=operation.text,
                next=f'debug="{operation.verb.value} {near[0] if near else "*"}"',
            )
        lacking = sorted(rank for rank in operation.ranks or () if rank >= num_ranks)
        if lacking:
            raise ConfigError(
                f"a debug operation names rank {lacking[0]}",
                code="C117",
                where="debug",
                expected=f"ranks 0 to {num_ranks - 1}",
                found=operation.text,
                next=f"rank=0-{num_ranks - 1}, or no rank= for all of them",
            )


def _require_sense(text: str, verb: DebugVerb, options: Mapping[str, str]) -> None:
    if (verb is DebugVerb.EQUAL) is not ("axis" in options):
        raise _wrong(text, "axis=dp or axis=tp with equal, and with equal alone")
    if verb is DebugVerb.EQUAL and {"step", "mb", "rank"} & options.keys():
        raise _wrong(text, "equal without step, mb and rank: it makes a call, which every rank makes in every step")
    if (verb is DebugVerb.RANGE) is not bool({"min", "max"} & options.keys()):
        raise _wrong(text, "min= or max= with range, and with range alone")


def _member(text: str, value: str) -> DebugTarget:
    try:
        return DebugTarget(value)
    except ValueError:
        raise _wrong(text, "of=output or of=grad") from None


def _axis(text: str, value: str | None) -> Axis | None:
    if value is not None and value not in _AXES:
        raise _wrong(text, "axis=dp or axis=tp")
    return None if value is None else _AXES[value]


def _number(text: str, value: str | None, default: float) -> float:
    try:
        return default if value is None else float(value)
    except ValueError:
        raise _wrong(text, f"a number, not {value}") from None


def _numbers(text: str, value: str) -> frozenset[int]:
    """The numbers of ``3``, ``0-2`` or ``0+4+6-8``."""
    found: set[int] = set()
    for part in value.split("+"):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isdecimal() for end in ends) or not int(ends[0]) <= int(ends[1]) <= _MOST:
            raise _wrong(text, "numbers as 3, 0-2 or 0+4")
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return frozenset(found)


def _wrong(text: str, expected: str, *, next: str | None = None) -> ConfigError:
    return ConfigError(
        "a debug operation is not understood",
        code="C103",
        where="debug",
        expected=expected,
        found=text,
        next=next or 'debug="print blocks.0.mlp step=0-2 rank=1": docs/debug.md',
    )


def no_terminal(text: str) -> ConfigError:
    """That the operation `text` cannot stop with a prompt, for want of a terminal."""
    return ConfigError(
        "a debug operation stops with a prompt, and the ranks have no terminal",
        code="C117",
        where="debug",
        expected="a rank whose standard input is a terminal",
        found=text,
        next="torchrun --nproc-per-node 1 -m emberward.rank RECIPE in a terminal, or print instead of stop",
    )
