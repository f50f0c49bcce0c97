"""Published runs in which dp shards parameters or the optimizer: the other half of the third set.

See [Note: what a source leaves open] in `_published_third.py`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from emberward.layout import Model
from emberward.perf import CLUSTERS, Attention, Casts, NumberFormat, Numerics, Recompute, Stack, StepPlan
from emberward.plan import one_f_one_b
from emberward.report._published_model import decoder_model
from emberward.report._published_run import PublishedRun, slots_of


def third_sharded_runs() -> Iterator[PublishedRun]:
    """All rows of this file."""
    yield from _titan_a100()
    yield from _titan_405b()
    yield from _titan_async()
    yield from _olmo()
    yield from _jax()
    yield from _flash()
    yield from _tiny_llama()


def _row(
    *, name: str, cluster: str, model: Model, dp: int, micro_batch: int, how: Numerics, source: str,
    rate: float | None = None, step_s: float | None = None, tp: int = 1, num_mb: int = 1, assumed: str | None = None,
    **plan: Any,
) -> PublishedRun:  # fmt: skip
    return PublishedRun(
        name=name,
        cluster=CLUSTERS[cluster],
        model=model,
        plan=StepPlan(
            tp=tp,
            dp=dp,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(one_f_one_b(1, num_mb)),
            stage_layers=(len(model.layers),),
            how=how,
            **{"shards_parameters": True, "has_root_unit": True, **plan},
        ),
        source=source,
        tokens_per_s_per_rank=rate,
        step_s=step_s,
        assumed=assumed,
    )


def _llama(layers: int, hidden: int, heads: int, ffn: int, kv_heads: int | None, vocab: int, seq_len: int) -> Model:
    return decoder_model(
        num_layers=layers, hidden=hidden, num_heads=heads, ffn_hidden=ffn, num_kv_heads=kv_heads, vocab_size=vocab,
        seq_len=seq_len, is_gated=True, has_bias=False, has_embed_norm=False, is_tied=False,
    )  # fmt: skip


_LLAMA_3_8B = _llama(32, 4096, 32, 14336, 8, 128256, 8192)
_LLAMA_3_70B = _llama(80, 8192, 64, 28672, 8, 128256, 8192)
_LLAMA_2_13B = _llama(40, 5120, 40, 13824, None, 32000, 4096)
_LLAMA_2_70B = _llama(80, 8192, 64, 28672, 8, 32000, 4096)
_LLAMA_405B = _llama(126, 16384, 128, 53248, 8, 128256, 8192)

# -- torchtitan -------------------------------------------------------------------------------------------------------

_PERFORMANCE = "pytorch/torchtitan docs/performance.md at 157a12c56 (April 2024), 64 A100"


def _titan_a100() -> Iterator[PublishedRun]:
    none = Numerics(stack=Stack.EAGER)
    whole = replace(none, recompute=Recompute.LAYER)
    op = replace(none, recompute=Recompute.EVERY_OTHER)
    layer = replace(whole, recompute_share=0.5)
    for name, model, micro_batch, how, rate in (
        ("llama3-8b-layer", _LLAMA_3_8B, 1, layer, 2904),
        ("llama3-8b-op", _LLAMA_3_8B, 1, op, 2973),
        ("llama3-70b", _LLAMA_3_70B, 1, whole, 331),
        ("llama2-13b-none", _LLAMA_2_13B, 2, none, 2162),
        ("llama2-13b-layer", _LLAMA_2_13B, 2, layer, 1914),
        ("llama2-13b-op", _LLAMA_2_13B, 2, op, 1904),
        ("llama2-70b-op", _LLAMA_2_70B, 1, op, 355),
        ("llama2-70b", _LLAMA_2_70B, 2, whole, 353),
    ):
        yield _row(
            name=f"titan-a100-{name}", cluster="a100", model=model, dp=64, micro_batch=micro_batch, how=how,
            source=_PERFORMANCE, rate=rate,
            assumed="not compiled (train_configs of that commit); the maker's nodes; float32 gradients on the wire",
        )  # fmt: skip


def _titan_405b() -> Iterator[PublishedRun]:
    plain = Numerics(recompute=Recompute.LAYER, casts=Casts.COMPILED)
    eight = replace(plain, fmt=NumberFormat.FP8)
    for name, how, rate in (
        ("bf16", plain, 109), ("fp8", eight, 177), ("fp8-async", replace(eight, tp_overlap=True), 185),
    ):  # fmt: skip
        yield _row(
            name=f"titan-405b-128-{name}", cluster="h100-500w", model=_LLAMA_405B, tp=8, dp=16, micro_batch=2,
            how=how, source="pytorch/torchtitan docs/performance.md at 3faaa1a0d (August 2024), 128 H100 of 95 GB",
            rate=rate, gather_bytes=1.0 if how.fmt is NumberFormat.FP8 else 2.0,
            assumed="compiled, float8 all-gather (train_configs/llama3_405b.toml); its H100s as those of the "
            "platform's later page",
        )  # fmt: skip


def _titan_async() -> Iterator[PublishedRun]:
    whole = Numerics(recompute=Recompute.LAYER, casts=Casts.COMPILED)
    op = replace(whole, recompute=Recompute.EVERY_OTHER)
    for size, model, dp, micro_batch, base, rates in (
        ("70b", _LLAMA_3_70B, 32, 16, whole, ((597.3, 652.4), (809.8, 942.4))),
        ("8b", _LLAMA_3_8B, 8, 12, op, ((4378, 4809.4), (5078.1, 5570.1))),
    ):
        for fmt, pair in zip((NumberFormat.BF16, NumberFormat.FP8), rates, strict=True):
            for overlaps, rate in zip((False, True), pair, strict=True):
                yield _row(
                    name=f"titan-2025-{size}-{fmt.value}" + ("-async" if overlaps else ""), cluster="h100-500w",
                    model=model, tp=8, dp=dp, micro_batch=micro_batch,
                    how=replace(base, fmt=fmt, tp_overlap=overlaps), rate=rate,
                    gather_bytes=1.0 if fmt is NumberFormat.FP8 else 2.0,
                    source="pytorch/torchtitan benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md",
                    assumed="bf16 (float8) parameters on the wire, float32 gradients",
                )  # fmt: skip


# -- OLMo-core --------------------------------------------------------------------------------------------------------


def _olmo() -> Iterator[PublishedRun]:
    vocab = 100352
    for name, model, micro_batch, batch, rates in (
        ("1b", _llama(18, 2048, 16, 5632, None, vocab, 4096), 8, 1024, (55000, 65000)),
        ("7b", _llama(32, 4096, 32, 11008, None, vocab, 4096), 2, 1024, (10000, 13000)),
        ("8b", _llama(32, 4096, 32, 14336, 8, vocab, 4096), 2, 1024, (9500, 12500)),
        ("13b", _llama(40, 5120, 40, 13824, None, vocab, 4096), 1, 2048, (4600, 5500)),
    ):
        for fmt, rate in zip((NumberFormat.BF16, NumberFormat.FP8), rates, strict=True):
            yield _row(
                name=f"olmo-{name}-{fmt.value}", cluster="h100", model=model, dp=8, micro_batch=micro_batch,
                num_mb=batch // (8 * micro_batch), how=Numerics(fmt=fmt, casts=Casts.COMPILED), rate=rate,
                source="allenai/OLMo-core README.md and src/scripts/train at ecb7b672a (December 2024)",
                assumed="one node (the launcher's default), compiled, torch's attention; norms of queries and keys "
                "left out; bf16 parameters on the wire",
            )  # fmt: skip


# -- JAX --------------------------------------------------------------------------------------------------------------


def _jax() -> Iterator[PublishedRun]:
    yield _row(
        name="maxtext-llama2-7b-8", cluster="h100", model=_llama(32, 4096, 32, 11008, None, 32000, 4096), dp=8,
        micro_batch=2, how=Numerics(attention=Attention.CUDNN), step_s=0.721, has_root_unit=False,
        source="NVIDIA/JAX-Toolbox rosetta/rosetta/projects/maxtext/README.md at 5a25a146 (May 2024)",
        assumed="minimal_flash keeps every product: only elementwise work, fused by XLA, is computed again",
    )  # fmt: skip
    gpt = decoder_model(
        num_layers=24, hidden=4096, num_heads=32, ffn_hidden=16384, vocab_size=51200, seq_len=2048, has_embed_norm=False
    )
    for fmt, ranks, step_s in (
        (NumberFormat.BF16, 16, 0.634), (NumberFormat.BF16, 128, 0.651),
        (NumberFormat.FP8, 16, 0.47), (NumberFormat.FP8, 128, 0.5),
    ):  # fmt: skip
        yield _row(
            name=f"paxml-5b-{ranks}-{fmt.value}", cluster="h100", model=gpt, dp=ranks, micro_batch=4,
            how=Numerics(fmt=fmt, casts=Casts.COMPILED, attention=Attention.SCORES_IN_MEMORY),
            step_s=step_s, shard_ranks=8, has_root_unit=False,
            source="NVIDIA/dgxc-benchmarking paxml/ at v25.01 (DGX H100)",
            assumed="SAVE_DOT_ONLY keeps every product; cuDNN's attention is switched off (configure.sh); sharded in "
            "a node, copied over nodes",
        )  # fmt: skip


# -- FlashAttention's own trainer, TinyLlama --------------------------------------------------------------------------


def _flash() -> Iterator[PublishedRun]:
    sizes = {"1.3b": (24, 2048, 16, 8, 4), "2.7b": (32, 2560, 32, 4, 4), "2.7b-wide": (32, 2560, 20, 4, 4)}
    readme = "Dao-AILab/flash-attention training/README.md, configurations in training/configs/experiment/pile"
    paper = "Dao 2023 (arXiv 2307.08691), table 1, entered as known; " + readme
    for size, seq_len, kind, rate, tflops in (
        ("1.3b", 2048, Attention.FLASH_1, 169000 / 8, None), ("2.7b-wide", 2048, Attention.FLASH_1, 85000 / 8, None),
        ("1.3b", 8192, Attention.FLASH_1, None, 170), ("2.7b", 8192, Attention.FLASH_1, None, 175),
        ("1.3b", 2048, Attention.FLASH_2, None, 196), ("1.3b", 8192, Attention.FLASH_2, None, 220),
        ("2.7b", 2048, Attention.FLASH_2, None, 205), ("2.7b", 8192, Attention.FLASH_2, None, 225),
    ):  # fmt: skip
        layers, hidden, heads, short, long = sizes[size]
        model = decoder_model(
            num_layers=layers, hidden=hidden, num_heads=heads, ffn_hidden=4 * hidden, vocab_size=50264, seq_len=seq_len,
            has_embed_norm=False,
        )  # fmt: skip
        micro_batch, batch = (short, 512) if seq_len == 2048 else (long, 128)
        if rate is None:
            # The paper counts 6 a parameter and token, and 12 x layers x hidden x length (its section 4.2).
            assert tflops is not None
            rate = tflops * 1e12 / (6 * model.num_parameters + 12 * layers * hidden * seq_len)
        yield _row(
            name=f"flash-gpt3-{size}-s{seq_len}-{kind.value}", cluster="a100", model=model, dp=8,
            micro_batch=micro_batch, num_mb=batch // (8 * micro_batch), how=Numerics(attention=kind), rate=rate,
            source=readme if tflops is None else paper, shards_parameters=False, gather_bytes=4.0, reduce_bytes=8.0,
            cast_bytes=12.0, accumulate_bytes=12.0,
            assumed="ZeRO-1 over torch's DDP: float32 gradients all-reduced, float32 parameters gathered",
        )  # fmt: skip


def _tiny_llama() -> Iterator[PublishedRun]:
    yield _row(
        name="tinyllama-16", cluster="a100-40gb", model=_llama(22, 2048, 32, 5632, 4, 32000, 2048), dp=16,
        micro_batch=8, num_mb=8, how=Numerics(), rate=24000, reduce_bytes=2.0,
        source="jzhang38/TinyLlama README.md and pretrain/tinyllama.py at bf12224",
        assumed="2 nodes of the maker's; bf16 on the wire both ways (Fabric's bf16-mixed)",
    )  # fmt: skip
