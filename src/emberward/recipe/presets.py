"""Recipes that come with Emberward. Name one to run it: ``emberward train bloom_tiny``."""

from collections.abc import Callable, Mapping

from emberward.families import LlamaConfig, ModelConfig, RobertaConfig
from emberward.recipe._recipe import (
    BatchConfig,
    ComputeType,
    DataConfig,
    EvalConfig,
    ImageConfig,
    ImageMode,
    LayoutConfig,
    OptimConfig,
    PrecisionConfig,
    RampUp,
    Recipe,
    SaveConfig,
    Source,
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


def swin_tiny() -> Recipe:
    """Swin on scikit-learn's handwritten digits, 8 ranks, dp 2 x tp 2 x pp 2: a minute or two on two CPU cores.

    Its first stage has 3 heads, which tp 2 cuts 2 to 1.
    """
    return Recipe(
        name="swin_tiny",
        steps=120,
        schedule="1f1b",
        model=ModelConfig(
            family="swin",
            hidden=24,
            depths=(2, 2, 2),
            stage_heads=(3, 6, 12),
            window=2,
            image_size=8,
            patch_size=1,
            num_channels=1,
            num_classes=10,
            drop_path=0.1,
        ),
        layout=LayoutConfig(dp=2, tp=2, pp=2, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=64, micro_batch=8),
        optim=OptimConfig(lr=1e-3, lr_min=1e-4, warmup_samples=1280, betas=(0.9, 0.999), weight_decay=0.05),
        data=DataConfig(train=(Source(path="digits"),), held_out=0.1),
        evaluation=EvalConfig(interval=60, samples=256),
        save=SaveConfig(interval=60, keep=2),
    )


def swin_t() -> Recipe:
    """Swin-T, 28 million parameters (Liu et al. 2021), on a folder of images by class: ``data.train=FOLDER``."""
    return _swin(name="swin_t", model=ModelConfig(family="swin", hidden=96, drop_path=0.2))


def swin_b() -> Recipe:
    """Swin-B, 88 million parameters (Liu et al. 2021), on a folder of images by class: ``data.train=FOLDER``."""
    model = ModelConfig(family="swin", hidden=128, depths=(2, 2, 18, 2), stage_heads=(4, 8, 16, 32), drop_path=0.5)
    return _swin(name="swin_b", model=model)


def _swin(*, name: str, model: ModelConfig) -> Recipe:
    """The published recipe (Liu et al. 2021, appendix A2.1); of its augmentation crop, flip and mixup."""
    return Recipe(
        name=name,
        train_samples=300 * 1_281_167,
        model=model,
        layout=LayoutConfig(zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=1024),
        optim=OptimConfig(
            lr=1e-3, lr_min=1e-5, warmup_samples=20 * 1_281_167, betas=(0.9, 0.999), weight_decay=0.05, clip=5.0
        ),
        precision=PrecisionConfig(compute=ComputeType.BF16),
        data=DataConfig(
            train=(Source(path="imagenet/train"),),
            images=ImageConfig(side=224, mode=ImageMode.COLOUR, crop=16, flip=True, mixup=0.8),
        ),
        evaluation=EvalConfig(interval=1251, samples=50_000),
        save=SaveConfig(interval=1251, keep=2),
    )


def llama_tiny() -> Recipe:
    """A Llama-style decoder over bytes on 8 ranks, dp 2 x tp 2 x pp 2, with two key heads: minutes on two CPU cores."""
    return Recipe(
        name="llama_tiny",
        steps=120,
        schedule="1f1b",
        model=ModelConfig(
            family="llama", num_layers=4, hidden=128, num_heads=4, seq_len=128, llama=LlamaConfig(num_kv_heads=2)
        ),
        layout=LayoutConfig(dp=2, tp=2, pp=2, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=32, micro_batch=4),
        optim=OptimConfig(lr=5e-3, lr_min=5e-4, warmup_samples=320),
        evaluation=EvalConfig(interval=60, samples=64),
        save=SaveConfig(interval=40, keep=2),
    )


def roberta_tiny() -> Recipe:
    """A RoBERTa-style encoder that names hidden bytes, on 8 ranks, dp 2 x tp 2 x pp 2: minutes on two CPU cores."""
    return Recipe(
        name="roberta_tiny",
        steps=240,
        schedule="1f1b",
        model=ModelConfig(family="roberta", num_layers=2, hidden=128, num_heads=4, seq_len=64),
        layout=LayoutConfig(dp=2, tp=2, pp=2, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=64, micro_batch=8),
        optim=OptimConfig(lr=3e-3, lr_min=3e-4, warmup_samples=1280, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01),
        evaluation=EvalConfig(interval=120, samples=64),
        save=SaveConfig(interval=80, keep=2),
    )


def bloom_176b() -> Recipe:
    """BLOOM-176B as it was trained (bigscience tr11-176B-ml) on 384 A100 of 80 GB, 48 hosts of 8: tp 4, pp 12, dp 8."""
    return Recipe(
        name="bloom_176b",
        train_samples=220_000_000,
        schedule="1f1b",
        timeout_s=1800.0,
        model=ModelConfig(
            num_layers=70,
            hidden=14336,
            num_heads=112,
            vocab_size=250_880,
            seq_len=2048,
            init_std=0.0048,
            recompute=True,
        ),
        # Embedding and head take a layer's place each (type:transformer|embedding).
        layout=LayoutConfig(dp=8, tp=4, pp=12, zero=ZeroStage.OPTIMIZER, stage_layers=(5, *[6] * 10, 5)),
        batch=BatchConfig(global_batch=2048, micro_batch=2, ramp_up=RampUp(start=192, increment=16, samples=9_765_625)),
        optim=OptimConfig(lr=6e-5, lr_min=6e-6, warmup_samples=183_105, decay_samples=200_000_000, weight_decay=0.1),
        precision=PrecisionConfig(compute=ComputeType.BF16),
        evaluation=EvalConfig(interval=1000),
        save=SaveConfig(interval=100),
    )


def llama_405b() -> Recipe:
    """Llama 3.1 405B in the shape of its 8k training (Grattafiori et al. 2024, table 4): 16,384 H100 of 80 GB."""
    return Recipe(
        name="llama_405b",
        train_samples=2_000_000_000,
        schedule="1f1b",
        timeout_s=1800.0,
        model=ModelConfig(
            family="llama", num_layers=126, hidden=16384, num_heads=128, ffn_hidden=53248, vocab_size=128_256,
            seq_len=8192, recompute=True, llama=LlamaConfig(num_kv_heads=8),
        ),
        layout=LayoutConfig(dp=128, tp=8, pp=16, zero=ZeroStage.OPTIMIZER),
        batch=BatchConfig(global_batch=2048, micro_batch=1),
        optim=OptimConfig(lr=8e-5, lr_min=8e-7, warmup_samples=16_384_000, weight_decay=0.1),
        precision=PrecisionConfig(compute=ComputeType.BF16),
        evaluation=EvalConfig(interval=1000),
        save=SaveConfig(interval=100),
    )  # fmt: skip


def roberta_10b() -> Recipe:
    """A RoBERTa of 9.7 billion parameters on 128 V100 of 32 GB, 16 hosts of 8, by ZeRO 2 (DeepSpeed issue 1069)."""
    return Recipe(
        name="roberta_10b",
        steps=500_000,
        timeout_s=1800.0,
        # The published tokenizer's 50,265 ids, padded so that tp divides them.
        model=ModelConfig(
            family="roberta", num_layers=30, hidden=5120, num_heads=40, vocab_size=50_304, seq_len=510, dropout=0.1,
            attention_dropout=0.1, recompute=True, roberta=RobertaConfig(mask_id=50_264, num_positions=512),
        ),
        layout=LayoutConfig(dp=128, zero=ZeroStage.GRADIENTS),
        batch=BatchConfig(global_batch=1024, micro_batch=8),
        # Optimizer of the published large model (Liu et al. 2019, table 9), at a rate for this width (assumed).
        optim=OptimConfig(
            lr=1e-4, lr_min=0.0, warmup_samples=30_000 * 1024, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01
        ),
        precision=PrecisionConfig(compute=ComputeType.FP16),
        evaluation=EvalConfig(interval=1000),
        save=SaveConfig(interval=100),
    )  # fmt: skip


PRESETS: Mapping[str, Callable[[], Recipe]] = {
    "bloom_tiny": bloom_tiny,
    "bloom_small": bloom_small,
    "bloom_176b": bloom_176b,
    "llama_tiny": llama_tiny,
    "llama_405b": llama_405b,
    "roberta_tiny": roberta_tiny,
    "roberta_10b": roberta_10b,
    "swin_tiny": swin_tiny,
    "swin_t": swin_t,
    "swin_b": swin_b,
}
