"""Runs that others published with their configuration, as values, and what `perf` predicts for each.

Every row's source says where its configuration and its figure stand. What a source leaves open is said in `assumed`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from emberward.layout import Model
from emberward.perf import CLUSTERS, Attention, Casts, NumberFormat, Numerics, Recompute, Stack, StepPlan
from emberward.plan import Schedule, interleaved, one_f_one_b
from emberward.report._published_later import later_runs
from emberward.report._published_model import decoder_model
from emberward.report._published_run import Comparison, PublishedRun, slots_of
from emberward.report._published_third import third_runs


def published_runs() -> dict[str, PublishedRun]:
    """All rows by name."""
    rows = [*_bigscience(), *_korthikanti(), *_torchtitan(), *later_runs(), *third_runs()]
    return {row.name: row for row in rows}


# -- BigScience -------------------------------------------------------------------------------------------------------

_PREQUEL = "bigscience train/tr11-176B-ml/chronicles-prequel.md, 'Rebalancing layers' (28 February 2022)"
_PREQUEL_FP16 = "bigscience train/tr11-176B-ml/chronicles-prequel.md, 'Re-do' (27 February 2022)"
_JEAN_ZAY = Numerics(
    stack=Stack.MEGATRON,
    attention=Attention.SCORES_IN_MEMORY,
    recompute=Recompute.LAYER,
    sequence_parallel=False,
)


def _by_slots(num_layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each stage where embedding and head take a layer's place (``type:transformer|embedding``)."""
    each = (num_layers + 2) // pp
    return (each - 1, *([each] * (pp - 2)), each - 1)


def _jean_zay(
    *, name: str, hidden: int, layers: int, heads: int, tp: int, pp: int, dp: int, micro_batch: int, step_s: float
) -> PublishedRun:
    num_mb = 2048 // (micro_batch * dp)
    return PublishedRun(
        name=name,
        cluster=CLUSTERS["a100-jean-zay"],
        model=decoder_model(
            num_layers=layers,
            hidden=hidden,
            num_heads=heads,
            ffn_hidden=4 * hidden,
            vocab_size=250880,
            seq_len=2048,
        ),
        plan=StepPlan(
            tp=tp,
            dp=dp,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(one_f_one_b(pp, num_mb)),
            stage_layers=_by_slots(layers, pp),
            how=_JEAN_ZAY,
            dp_overlap=False,
            # deepspeed/runtime/bf16_optimizer.py update_hp_grads: a float32 copy (2 + 4 bytes), then an addition (12).
            accumulate_bytes=18.0,
            # deepspeed/runtime/engine.py communication_data_type at 56c522386: float32 gradients are all-reduced as
            # bfloat16, twice a reduce-scatter.
            reduce_bytes=4.0,
            is_blocking=True,
        ),
        source=_PREQUEL,
        step_s=step_s,
        assumed="CUDA_LAUNCH_BLOCKING=1 as in tr11-176B-ml.slurm; no dropout (BLOOM's config.json)",
    )


def _bigscience() -> Iterator[PublishedRun]:
    bloom = _jean_zay(
        name="bloom-176b", hidden=14336, layers=70, heads=112, tp=4, pp=12, dp=8, micro_batch=2, step_s=105.22
    )
    yield replace(bloom, source="bigscience train/tr11-176B-ml/chronicles.md, iteration 12695; tr11-176B-ml.slurm")
    yield _jean_zay(
        name="176b-tp8-dp4", hidden=14336, layers=70, heads=64, tp=8, pp=12, dp=4, micro_batch=2, step_s=121.63
    )
    yield _jean_zay(name="176b-mb4", hidden=14336, layers=70, heads=64, tp=4, pp=12, dp=8, micro_batch=4, step_s=102.27)
    yield _jean_zay(
        name="178b-h13312", hidden=13312, layers=82, heads=64, tp=4, pp=12, dp=8, micro_batch=2, step_s=104.45
    )
    yield _jean_zay(
        name="178b-tp8-mb4", hidden=13312, layers=82, heads=64, tp=8, pp=12, dp=4, micro_batch=4, step_s=111.79
    )
    yield _jean_zay(
        name="184b-tp8-pp6", hidden=12288, layers=100, heads=64, tp=8, pp=6, dp=8, micro_batch=4, step_s=120.96
    )
    yield _jean_zay(
        name="195b-h12288", hidden=12288, layers=106, heads=96, tp=4, pp=12, dp=8, micro_batch=2, step_s=118.79
    )
    yield _jean_zay(
        name="203b-h13312", hidden=13312, layers=94, heads=128, tp=4, pp=12, dp=8, micro_batch=2, step_s=124.10
    )
    for heads, bf16_s, fp16_s in ((64, 116.54, 110.96), (96, 118.79, 112.69)):
        wide = _jean_zay(
            name=f"195b-h12288-{heads}", hidden=12288, layers=106, heads=heads, tp=4, pp=12, dp=8, micro_batch=2,
            step_s=bf16_s,
        )  # fmt: skip
        if heads != 96:
            yield wide
        # The day before, without the bf16 optimizer: gradients are added in 16 bits and reduced to their ZeRO-1 owners.
        plan = replace(wide.plan, accumulate_bytes=6.0, reduce_bytes=2.0)
        yield replace(wide, name=f"{wide.name}-fp16", plan=plan, step_s=fp16_s, source=_PREQUEL_FP16)


# -- Megatron-LM ------------------------------------------------------------------------------------------------------

_TABLE_5 = "Korthikanti et al. 2022 (arXiv 2205.05198), tables 3 and 5"
_SELECTIVE = Numerics(
    stack=Stack.MEGATRON, attention=Attention.SCORES_IN_MEMORY, recompute=Recompute.SCORES, has_dropout=True
)
_FULL = replace(_SELECTIVE, recompute=Recompute.LAYER, sequence_parallel=False)


def _megatron(
    *, name: str, hidden: int, layers: int, heads: int, pp: int, chunks: int, batch: int, micro_batch: int,
    how: Numerics, step_s: float,
) -> PublishedRun:  # fmt: skip
    num_mb = batch // micro_batch
    schedule = interleaved(pp, num_mb, chunks) if chunks > 1 else one_f_one_b(pp, num_mb)
    return PublishedRun(
        name=name,
        cluster=CLUSTERS["a100"],
        model=decoder_model(
            num_layers=layers,
            hidden=hidden,
            num_heads=heads,
            ffn_hidden=4 * hidden,
            vocab_size=51200,
            seq_len=2048,
            has_embed_norm=False,
        ),
        plan=StepPlan(
            tp=8,
            dp=1,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(schedule),
            stage_layers=(layers // (pp * chunks),) * (pp * chunks),
            how=how,
            accumulate_bytes=8.0,
        ),
        source=_TABLE_5,
        step_s=step_s,
    )


def _korthikanti() -> Iterator[PublishedRun]:
    sizes: dict[str, dict[str, Any]] = {
        "22b": {"hidden": 6144, "layers": 48, "heads": 64, "pp": 1, "chunks": 1, "batch": 4, "micro_batch": 4},
        "175b": {"hidden": 12288, "layers": 96, "heads": 96, "pp": 8, "chunks": 3, "batch": 64, "micro_batch": 1},
        "530b": {"hidden": 20480, "layers": 105, "heads": 128, "pp": 35, "chunks": 3, "batch": 280, "micro_batch": 1},
        "1t": {"hidden": 25600, "layers": 128, "heads": 160, "pp": 64, "chunks": 1, "batch": 512, "micro_batch": 1},
    }
    seconds = {"22b": (1.10, 1.42), "175b": (13.75, 18.13), "530b": (37.83, 49.05), "1t": (71.49, 94.42)}
    for size, (selective_s, full_s) in seconds.items():
        yield _megatron(name=f"megatron-{size}", how=_SELECTIVE, step_s=selective_s, **sizes[size])
        yield _megatron(name=f"megatron-{size}-full", how=_FULL, step_s=full_s, **sizes[size])


# -- torchtitan -------------------------------------------------------------------------------------------------------

_TITAN = "torchtitan benchmarks/llama3_h100_202412_torchtitan.md at 9dec370"
_LLAMA: dict[str, Any] = {"vocab_size": 128256, "seq_len": 8192, "num_kv_heads": 8, "is_gated": True, "has_bias": False,
          "has_embed_norm": False, "is_tied": False}  # fmt: skip
_LLAMA_8B = decoder_model(num_layers=32, hidden=4096, num_heads=32, ffn_hidden=14336, **_LLAMA)
_LLAMA_70B = decoder_model(num_layers=80, hidden=8192, num_heads=64, ffn_hidden=28672, **_LLAMA)
_LLAMA_405B = decoder_model(num_layers=126, hidden=16384, num_heads=128, ffn_hidden=53248, **_LLAMA)


def _fsdp(
    *, name: str, model: Model, cluster: str, tp: int, dp: int, micro_batch: int, how: Numerics, rate: float,
    source: str,
) -> PublishedRun:  # fmt: skip
    return PublishedRun(
        name=name,
        cluster=CLUSTERS[cluster],
        model=model,
        plan=StepPlan(
            tp=tp,
            dp=dp,
            micro_batch=micro_batch,
            num_mb=1,
            orders=slots_of(one_f_one_b(1, 1)),
            stage_layers=(len(model.layers),),
            how=how,
            shards_parameters=True,
            has_root_unit=True,
            gather_bytes=1.0 if how.fmt is NumberFormat.FP8 else 2.0,
        ),
        source=source,
        tokens_per_s_per_rank=rate,
        assumed="compiled; bf16 parameters on the wire, float32 gradients",
    )


def _titan_405b(name: str, schedule: Schedule, layers: tuple[int, ...], rate: float) -> PublishedRun:
    return PublishedRun(
        name=name,
        cluster=CLUSTERS["h100-500w"],
        model=_LLAMA_405B,
        plan=StepPlan(
            tp=8,
            dp=8,
            micro_batch=4,
            num_mb=8,
            orders=slots_of(schedule),
            stage_layers=layers,
            how=Numerics(fmt=NumberFormat.FP8, casts=Casts.COMPILED, recompute=Recompute.LAYER, tp_overlap=True),
            gather_bytes=1.0,
        ),
        source=_TITAN + ", table 5; splits and 8 micro-batches of 4 from torchtitan/parallelisms/pipelining_utils.py",
        tokens_per_s_per_rank=rate,
        assumed="pipeline_parallel_microbatches left at its default, the pipeline's degree",
    )


def _torchtitan() -> Iterator[PublishedRun]:
    op = Numerics(recompute=Recompute.EVERY_OTHER)
    eight = replace(op, fmt=NumberFormat.FP8, casts=Casts.COMPILED)
    whole = Numerics(fmt=NumberFormat.FP8, casts=Casts.COMPILED, recompute=Recompute.LAYER)
    one: dict[str, Any] = {"model": _LLAMA_8B, "cluster": "h100-500w", "tp": 1, "micro_batch": 2, "source": _TITAN}
    yield _fsdp(name="llama-8b-8", dp=8, how=op, rate=6667, **one)
    yield _fsdp(name="llama-8b-128", dp=128, how=op, rate=6514, **one)
    yield _fsdp(name="llama-8b-8-fp8", dp=8, how=eight, rate=8532, **one)
    yield _fsdp(name="llama-8b-128-fp8", dp=128, how=eight, rate=8380, **one)
    trainy = "torchtitan benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md"
    h200 = {**one, "cluster": "h200", "source": trainy}
    yield _fsdp(name="llama-8b-h200-32-fp8", dp=32, how=eight, rate=10938, **h200)
    yield _fsdp(name="llama-8b-h200-64-fp8", dp=64, how=eight, rate=10753, **h200)
    two: dict[str, Any] = {
        "model": _LLAMA_70B,
        "cluster": "h100-500w",
        "tp": 8,
        "dp": 32,
        "micro_batch": 16,
        "source": _TITAN,
    }
    yield _fsdp(name="llama-70b-256-fp8", how=whole, rate=829, **two)
    yield _fsdp(name="llama-70b-256-fp8-async", how=replace(whole, tp_overlap=True), rate=876, **two)
    yield _titan_405b("llama-405b-1f1b", one_f_one_b(8, 8), (15, *([16] * 6), 15), 100)
    yield _titan_405b("llama-405b-interleaved", interleaved(8, 8, 2), (7, *([8] * 14), 7), 128)


def ratio_of_schedules(comparisons: Mapping[str, Comparison]) -> float:
    """Predicted speed of the interleaved 405B run over that of 1F1B; torchtitan measured 1.28."""
    plain, looped = comparisons["llama-405b-1f1b"], comparisons["llama-405b-interleaved"]
    return plain.prediction.step_s / looped.prediction.step_s
