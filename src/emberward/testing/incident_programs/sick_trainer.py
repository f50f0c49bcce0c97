"""Emberward's own rank program with a fault planted into its engine.

Usage: torchrun sick_trainer.py FAULT RECIPE [a.b=c ...]; FAULT is ``clip``, ``bit``, ``noise`` or ``none``.
"""

import os
import sys
from dataclasses import replace
from typing import Any

import torch

from emberward.engine import Engine
from emberward.layout import Axis
from emberward.rank.__main__ import main

FLIPPED_AT = 30
NOISE = range(60, 64)
train_step = Engine.train_step


def clip(engine: Engine, *_: Any) -> None:
    """The gradients are clipped on the first rank of each tensor-parallel group alone."""
    if engine.world.at(Axis.TP):
        for part in engine.parts:
            part.local_grad.mul_(3.0)


def with_clip_bug(engine: Engine, batches: Any, **more: Any) -> Any:
    """A step after whose clipping the gradients of other ranks are as large as before."""
    return train_step(engine, batches, **{**more, "before_update": lambda: clip(engine)})


def with_flipped_bit(engine: Engine, batches: Any, **more: Any) -> Any:
    """Steps; in one of them memory of rank 3 loses a bit."""
    totals = train_step(engine, batches, **more)
    if more["step"] == FLIPPED_AT and torch.distributed.get_rank() == 3:
        norm = next(part for part in engine.parts if "norm" in part.name)
        norm.local.view(torch.int32)[1] ^= 1 << 12
    return totals


def with_noise(engine: Engine, batches: Any, **more: Any) -> Any:
    """Steps; those in NOISE are given tokens of chance."""
    if more["step"] in NOISE:
        chance = torch.Generator().manual_seed(more["step"])
        noise = [torch.randint(256, (2, *each.inputs.shape), generator=chance) for each in batches]
        batches = [replace(each, inputs=x, labels=y) for each, (x, y) in zip(batches, noise, strict=True)]
    return train_step(engine, batches, **more)


PLANTS = {"clip": with_clip_bug, "bit": with_flipped_bit, "noise": with_noise, "none": train_step}

if __name__ == "__main__":
    Engine.train_step = PLANTS[sys.argv[1]]  # type: ignore[method-assign, assignment]
    code = main(sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
