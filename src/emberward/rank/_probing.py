"""The probe of a save: what its state makes of the batch that comes next, and whether it still does after a load.

[Note: the bound of a probe]
Equal numerics (layout, batch cut, number type, versions, kind of processor) must give equal bits where kernels are
deterministic. Elsewhere sums are taken in another order: the loss may differ by LOSS_BOUND and the gradient's norm by
NORM_BOUND, relatively. They leave about ten times what ``docs/measured/probe.json`` shows, or more, for larger models
and other kernels; BLOOM-176B's reshape moved the loss by 1% (1.9439 to 1.9633) and nobody knew why, so the bounds stay
well below.
"""

import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from emberward import __version__
from emberward.checkpoint import Probe, relative_difference
from emberward.engine import StepTotals, World
from emberward.findings import Cause, Certainty, EmberwardError, Finding, Kind, Severity
from emberward.recipe import ComputeType, Recipe

LOSS_BOUND = {ComputeType.FP32: 1e-5, ComputeType.FP16: 5e-4, ComputeType.BF16: 2e-3}
NORM_BOUND = {ComputeType.FP32: 1e-4, ComputeType.FP16: 2e-3, ComputeType.BF16: 1e-2}


def versions() -> dict[str, str]:
    """What computes here."""
    return {
        "emberward": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def layout_of(recipe: Recipe) -> dict[str, Any]:
    """How the recipe lays the model out, in plain values."""
    layout = recipe.layout
    return {
        "dp": layout.dp,
        "dp_replicate": layout.dp_replicate,
        "tp": layout.tp,
        "pp": layout.pp,
        "zero": int(layout.zero),
        "stages_per_rank": layout.stages_per_rank,
        "sequence_parallel": recipe.splits_sequence,
    }


def numerics_of(recipe: Recipe, world: World) -> dict[str, Any]:
    """All that decides the bits of a step beside the state and the batch, as far as it is known."""
    device = world.device
    is_cuda = device.type == "cuda"
    return {
        "layout": layout_of(recipe),
        "schedule": recipe.schedule,
        "micro_batch": recipe.batch.micro_batch,
        "compute": recipe.precision.compute.value,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "device": torch.cuda.get_device_name(device) if is_cuda else "cpu",
        "num_threads": torch.get_num_threads(),
        "is_deterministic": not is_cuda or torch.are_deterministic_algorithms_enabled(),
        "torch": torch.__version__,
    }


def probe_of(
    totals: StepTotals, *, step: int, first_sample: int, num_samples: int, numerics: Mapping[str, Any]
) -> Probe | None:
    """The probe of the save of `step` from the totals of the step after it; None when they are not finite."""
    if not (totals.is_finite and totals.num_tokens and math.isfinite(totals.loss)):
        return None
    return Probe(
        step=step,
        first_sample=first_sample,
        num_samples=num_samples,
        tokens=totals.num_tokens,
        loss=totals.loss,
        grad_norm=totals.grad_norm,
        numerics=dict(numerics),
    )


def judge(saved: Probe, found: Probe | None, *, path: Path) -> Finding | None:
    """A notice when bits differ that should be equal; None when all is as saved, or cannot be compared. Pure.

    `found` is None when the step was not finite, which in fp16 is ordinary: its scale may fit one order of sums and not
    another. Raises K107 when a difference is beyond the bound. Another batch, or number type, cannot be compared.
    """
    if found is not None and _batch(saved) != _batch(found):
        return None
    compute = ComputeType(str(saved.numerics["compute"]))
    if found is not None and found.numerics["compute"] != saved.numerics["compute"]:
        return None
    if found is None and compute is ComputeType.FP16:
        return None
    if found is None:
        raise _beyond(saved, "values that are not finite", None, path)
    loss, norm = relative_difference(found.loss, saved.loss), relative_difference(found.grad_norm, saved.grad_norm)
    if loss > LOSS_BOUND[compute] or norm > NORM_BOUND[compute]:
        raise _beyond(saved, f"loss {found.loss!r}, gradient norm {found.grad_norm!r}", found, path)
    if loss == norm == 0.0 or dict(found.numerics) != dict(saved.numerics) or not saved.numerics["is_deterministic"]:
        return None
    return Finding(
        code="K107",
        severity=Severity.NOTICE,
        kind=Kind.DRIFT,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=(
            f"the state of step {saved.step} gives loss {found.loss!r} and gradient norm {found.grad_norm!r}, "
            f"saved {saved.loss!r} and {saved.grad_norm!r}: equal to rounding, on the same layout and versions"
        ),
        next="look for kernels that are not deterministic; the run goes on",
    )


def _batch(probe: Probe) -> tuple[int, int, int, float]:
    return probe.step, probe.first_sample, probe.num_samples, probe.tokens


def _beyond(saved: Probe, what: str, found: Probe | None, path: Path) -> EmberwardError:
    compute = ComputeType(str(saved.numerics["compute"]))
    changed = [] if found is None else [key for key in saved.numerics if saved.numerics[key] != found.numerics.get(key)]
    other = ", ".join(f"{key} {saved.numerics[key]} now {found.numerics.get(key)}" for key in changed) if found else ""
    return EmberwardError(
        f"the state of step {saved.step} gives another loss than when it was saved",
        code="K107",
        where=f"{path}, samples {saved.first_sample} to {saved.first_sample + saved.num_samples - 1}",
        expected=(
            f"loss {saved.loss!r}, gradient norm {saved.grad_norm!r}, "
            f"to {LOSS_BOUND[compute]:g} and {NORM_BOUND[compute]:g} of them"
        ),
        found=what + (f"; changed: {other}" if other else "; nothing that is known has changed"),
        next=f"rm {path / 'probe.json'}      (if the change is meant: the next start does not compare)",
    )
