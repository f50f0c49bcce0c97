"""The engine's changes of layout on the pre-flight page: a table, advice as a finding, and the log as CSV."""

from collections.abc import Sequence
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Severity, require_code
from emberward.plan import BoxingDecision, boxing_decisions
from emberward.recipe import Recipe
from emberward.report._fit import table
from emberward.report._step_shape import step_shape_of

MAX_ROWS = 24


def boxing_of(recipe: Recipe) -> tuple[BoxingDecision, ...]:
    """Every decision of a resolved recipe's training step. See plan/_boxing_log.py [Note: boxing decisions]."""
    dtype = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[recipe.precision.compute.value]
    return boxing_decisions(step_shape_of(recipe), dtype=dtype)


def boxing_text(decisions: Sequence[BoxingDecision]) -> str:
    """The table of decisions; empty where no layout changes. Bytes are what all ranks of a change receive in a step."""
    if not decisions:
        return ""
    header = ["pp", "tensor", "shape", "from", "to", "times", "bytes a step", "by"]
    rows = [
        [
            str(each.pp_rank),
            each.tensor,
            "x".join(map(str, each.runs.shape)),
            str(each.runs.source),
            str(each.runs.target),
            str(each.times),
            f"{each.step_bytes:,}",
            " -> ".join(step.builder for step in each.runs.steps) or "identity",
        ]
        for each in decisions[:MAX_ROWS]
    ]
    lines = [
        "",
        "  changes of layout (boxing), one row for all of a kind",
        *(f"  {line}" for line in table(header, rows)),
    ]
    if len(decisions) > MAX_ROWS:
        lines.append(f"  and {len(decisions) - MAX_ROWS} more: --boxing-csv FILE has them all")
    return "\n".join(lines)


def boxing_finding(decisions: Sequence[BoxingDecision]) -> Finding | None:
    """M114 where another layout or route would receive or hold less; None where none would."""
    advised: dict[str, list[str]] = {}
    for each in decisions:
        if each.advice is not None:
            advised.setdefault(each.advice, []).append(each.tensor)
    if not advised:
        return None
    tensors = list(dict.fromkeys(tensor for names in advised.values() for tensor in names))
    return Finding(
        code="M114",
        severity=Severity.NOTICE,
        kind=require_code("M114").kind,
        cause=Cause.NONE,
        certainty=Certainty.INFERRED,
        message=f"another layout or route would serve better: {', '.join(tensors)}",
        evidence=tuple(f"{', '.join(dict.fromkeys(names))}: {advice}" for advice, names in advised.items()),
        next="take what the advice names in brackets, or leave it: nothing is wrong",
    )


def boxing_json(decisions: Sequence[BoxingDecision]) -> list[dict[str, Any]]:
    """The decisions as they stand in a command's JSON document."""
    return [
        {
            "pp_rank": each.pp_rank,
            "tensor": each.tensor,
            "dtype": each.dtype,
            "shape": list(each.runs.shape),
            "source": str(each.runs.source),
            "source_placement": each.runs.source.placement_text,
            "target": str(each.runs.target),
            "target_placement": each.runs.target.placement_text,
            "builder": " -> ".join(step.builder for step in each.runs.steps) or "identity",
            "times": each.times,
            "received_bytes": each.runs.received_bytes,
            "advice": each.advice,
        }
        for each in decisions
    ]
