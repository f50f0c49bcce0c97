"""The preset bloom_tiny, to be copied and changed: ``emberward train recipes/bloom_tiny.py``.

Only what differs from the defaults needs to stand here; docs/configuration.md lists every key.
"""

from emberward.recipe import (
    BatchConfig,
    DataConfig,
    EvalConfig,
    LayoutConfig,
    ModelConfig,
    OptimConfig,
    Recipe,
    SaveConfig,
    Source,
    ZeroStage,
)


def bloom_tiny() -> Recipe:
    """A BLOOM-style decoder over bytes on 8 ranks, dp 2 x tp 2 x pp 2."""
    return Recipe(
        name="bloom_tiny",
        steps=120,
        schedule="1f1b",
        model=ModelConfig(num_layers=4, hidden=128, num_heads=4, seq_len=128),
        layout=LayoutConfig(dp=2, tp=2, pp=2, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=32, micro_batch=4),
        optim=OptimConfig(lr=5e-3, lr_min=5e-4, warmup_samples=320),
        # Your own text: Source(path="my.txt"), a folder, or several with weights.
        data=DataConfig(train=(Source(path="stdlib"),)),
        evaluation=EvalConfig(interval=60, samples=64),
        save=SaveConfig(interval=40, keep=2),
    )
