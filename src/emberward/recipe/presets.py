"""Recipes that come with Emberward. Name one to run it: ``emberward train bloom_tiny``."""

from collections.abc import Callable, Mapping

from emberward.recipe._recipe import (
    BatchConfig,
    ComputeType,
    EvalConfig,
    LayoutConfig,
    ModelConfig,
    OptimConfig,
    PrecisionConfig,
    Recipe,
    SaveConfig,
    ZeroStage,
)


def bloom_tiny() -> Recipe:
    """A BLOOM-style decoder over bytes on 8 ranks, dp 2 x tp 2 x pp 2: minutes on two CPU cores."""
    return Recipe(
        name="bloom_tiny",
        steps=120,
        schedule="1f1b",
        model=ModelConfig(num_layers=4, hidden=128, num_heads=4, seq_len=128),
        layout=LayoutConfig(dp=2, tp=2, pp=2, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=32, micro_batch=4),
        optim=OptimConfig(lr=5e-3, lr_min=5e-4, warmup_samples=320),
        evaluation=EvalConfig(interval=60, samples=64),
        save=SaveConfig(interval=40, keep=2),
    )


def bloom_small() -> Recipe:
    """A BLOOM-style decoder of 86 million parameters over bytes, on as many GPUs as there are, by dp alone."""
    return Recipe(
        name="bloom_small",
        steps=2000,
        model=ModelConfig(num_layers=12, hidden=768, num_heads=12, seq_len=1024),
        layout=LayoutConfig(zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=64, micro_batch=8),
        optim=OptimConfig(lr=6e-4, lr_min=6e-5, warmup_samples=6400),
        precision=PrecisionConfig(compute=ComputeType.BF16),
        evaluation=EvalConfig(interval=200, samples=256),
        save=SaveConfig(interval=200, keep=2),
    )


PRESETS: Mapping[str, Callable[[], Recipe]] = {"bloom_tiny": bloom_tiny, "bloom_small": bloom_small}
