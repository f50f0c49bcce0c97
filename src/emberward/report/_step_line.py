"""The line of a step, as Megatron-DeepSpeed printed it in the BLOOM-176B training.

[Note: step line]
`` iteration 12695/ 115311 | consumed samples: 9841584 | consumed tokens: 20155564032 | elapsed time per iteration (s):
105.22 | learning rate: 5.969E-05 | global batch size: 2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0
| number of skipped iterations: 0 | number of nan iterations: 0 | samples per second: 19.463 | TFLOPs: 149.02 |``
(BigScience, chronicles of the 176B training, March 2022). Tools that read such logs split at ``|`` and ``:``. A fact
that was not measured is ``n/a``, never a number.
"""

from collections.abc import Mapping
from typing import Any


def _shown(value: float | None, spec: str) -> str:
    return "n/a" if value is None else format(value, spec)


def step_line(metrics: Mapping[str, Any], *, steps: int) -> str:
    """The line of one object of ``metrics.jsonl``, without a newline. See [Note: step line].

    `steps` is the step at which the run ends. Missing or null keys are shown as ``n/a``.
    """
    get = metrics.get
    fields = (
        ("consumed samples", get("consumed_samples"), "d"),
        ("consumed tokens", get("consumed_tokens"), "d"),
        ("elapsed time per iteration (s)", get("step_s"), ".2f"),
        ("learning rate", get("lr"), ".3E"),
        ("global batch size", get("global_batch_size"), "d"),
        ("lm loss", get("loss"), ".6E"),
        ("grad norm", get("grad_norm"), ".3f"),
        ("num zeros", get("num_zeros"), ".1f"),
        ("number of skipped iterations", get("skipped"), "d"),
        ("number of nan iterations", get("nan"), "d"),
        ("samples per second", get("samples_per_s"), ".3f"),
        ("TFLOPs", get("tflops"), ".2f"),
    )
    body = " | ".join(f"{name}: {_shown(value, spec)}" for name, value, spec in fields)
    return f" iteration {_shown(get('step'), 'd')}/ {steps} | {body} |"
