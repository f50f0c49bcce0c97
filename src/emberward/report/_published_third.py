"""Published runs with tensor and pipeline parallelism, entered while the model of `perf` stood still. The sharded runs
of the same set are in `_published_third_sharded.py`.

None of their sources had been used before, and no entry of the hardware table rests on them. What the model said of
them first is docs/measured/first_contact/predictions_2.json.

[Note: what a source leaves open]
One rule fills what a source does not state, and no row has a rule of its own:
1. sizes, micro-batches, recomputation, dropout and precision: the configuration in the source's repository at the date
   of the figure, else the default of the framework that it names;
2. attention: scores in memory for Megatron-LM and NeMo until 2022, else the kernel that the framework chooses;
3. elementwise work: fused for frameworks with kernels of their own or a compiler, else eager;
4. gradients: 16 bits in memory and on the wire where the run is in fp16, else float32; each rank holds all of the
   optimizer where no sharding is stated;
5. the network: the maker's own nodes; the vocabulary padded as the framework pads it;
6. of a table that only scales the number of devices: the fewest and the most. Several times of one configuration: their
   median.

Not entered, because `StepPlan` cannot express them: context parallelism, experts, 8-bit scales by row, recomputation of
single products (MaxText 70B and Paxml 175B of DGX Cloud Benchmarking). Not entered, because the source leaves out what
no default gives: micro-batches (Nemotron-4's reports, LLaMA), the layout (OPT). Not entered, because the source gives
its figures an uncertainty of 40%: bigscience experiments/gpt2.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from emberward.layout import Model
from emberward.perf import CLUSTERS, Attention, NumberFormat, Numerics, Recompute, Stack, StepPlan, hardware_tflops
from emberward.plan import interleaved, one_f_one_b
from emberward.report._published_model import decoder_model
from emberward.report._published_run import PublishedRun, slots_of
from emberward.report._published_third_sharded import third_sharded_runs


def third_runs() -> Iterator[PublishedRun]:
    """All rows of the third set."""
    yield from _megatron_2020()
    yield from _narayanan()
    yield from _turing()
    yield from _megascale()
    yield from _jean_zay_v100()
    yield from _nemo_2022()
    yield from _dgx_cloud()
    yield from third_sharded_runs()


def _gpt(layers: int, hidden: int, heads: int, *, vocab_size: int, seq_len: int = 2048) -> Model:
    return decoder_model(
        num_layers=layers, hidden=hidden, num_heads=heads, ffn_hidden=4 * hidden, vocab_size=vocab_size,
        seq_len=seq_len, has_embed_norm=False,
    )  # fmt: skip


def _row(
    *, name: str, cluster: str, model: Model, tp: int, pp: int, dp: int, batch: int, micro_batch: int,
    how: Numerics, source: str, chunks: int = 1, assumed: str | None = None, step_s: float | None = None,
    rate: float | None = None, tflops: float | None = None, **plan: Any,
) -> PublishedRun:  # fmt: skip
    """A row from whichever figure its source states; `tflops` counts as Narayanan et al. 2021, equation 3."""
    num_mb = batch // (dp * micro_batch)
    schedule = interleaved(pp, num_mb, chunks) if chunks > 1 else one_f_one_b(pp, num_mb)
    if tflops is not None:
        work = hardware_tflops(model, recompute=True, global_batch=batch, step_s=1.0, num_ranks=1)
        step_s = work / (tflops * tp * pp * dp)
    return PublishedRun(
        name=name,
        cluster=CLUSTERS[cluster],
        model=model,
        plan=StepPlan(
            tp=tp,
            dp=dp,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(schedule),
            stage_layers=(len(model.layers) // (pp * chunks),) * (pp * chunks),
            how=how,
            **plan,
        ),
        source=source,
        step_s=step_s,
        tokens_per_s_per_rank=rate,
        assumed=assumed,
    )


_SCORES = Numerics(attention=Attention.SCORES_IN_MEMORY, has_dropout=True, sequence_parallel=False)
_RECOMPUTED = replace(_SCORES, stack=Stack.MEGATRON, recompute=Recompute.LAYER)
_FP16_WHOLE: dict[str, Any] = {"accumulate_bytes": 6.0, "reduce_bytes": 2.0, "shard_ranks": 1}
"""fp16 gradients, added in 16 bits and all-reduced so; every dp rank holds the whole optimizer."""

# -- Megatron-LM ------------------------------------------------------------------------------------------------------

_README_2020 = "NVIDIA/Megatron-LM images/tables.tex at 7abd3e90d0 (README of September 2020)"
_SIZES_2020 = {"1b": (24, 1920, 15, 1), "2b": (30, 2304, 18, 2), "4b": (36, 3072, 24, 4), "8b": (42, 4096, 32, 8)}
"""Layers, hidden, heads, tp."""
_TIMES_2020 = (
    ("v100-dgx2", 1, 8, (1.121, 1.093, 1.238, 1.407)),
    ("a100-40gb", 1, 16, (1.076, 1.026, 1.162, 1.343)),
    ("a100-40gb", 128, 2048, (1.153, 1.101, 1.242, 1.380)),
)


def _megatron_2020() -> Iterator[PublishedRun]:
    for cluster, dp, batch, times in _TIMES_2020:
        for (size, (layers, hidden, heads, tp)), step_s in zip(_SIZES_2020.items(), times, strict=True):
            yield _row(
                name=f"megatron2020-{size}-{cluster}-dp{dp}",
                cluster=cluster,
                model=_gpt(layers, hidden, heads, vocab_size=51200, seq_len=1024),
                tp=tp, pp=1, dp=dp, batch=batch, micro_batch=batch // dp,
                how=_RECOMPUTED,
                source=_README_2020,
                step_s=step_s,
                dp_overlap=False,
                assumed="recomputed layers (as its TFLOP/s say), dropout 0.1, DDP-impl local, fp16 gradients",
                **_FP16_WHOLE,
            )  # fmt: skip


_SC21 = "NVIDIA/Megatron-LM images/cases_april2021.png at 50a4b5fa02, examples/academic_paper_scripts/sc21/"


class _Table1(NamedTuple):
    size: str
    layers: int
    hidden: int
    heads: int
    tp: int
    pp: int
    chunks: int
    ranks: int
    batch: int
    micro_batch: int
    tflops: float


_TABLE_1 = (
    _Table1("1.7b", 24, 2304, 24, 1, 1, 1, 32, 512, 16, 137),
    _Table1("3.6b", 30, 3072, 32, 2, 1, 1, 64, 512, 16, 138),
    _Table1("7.5b", 36, 4096, 32, 4, 1, 1, 128, 512, 16, 142),
    _Table1("18b", 40, 6144, 48, 8, 1, 1, 256, 1024, 8, 135),
    _Table1("39b", 48, 8192, 64, 8, 2, 1, 512, 1536, 4, 138),
    _Table1("76b", 60, 10240, 80, 8, 4, 3, 1024, 1792, 2, 140),
    _Table1("145b", 80, 12288, 96, 8, 8, 2, 1536, 2304, 2, 148),
    _Table1("310b", 96, 16384, 128, 8, 16, 2, 1920, 2160, 1, 155),
    _Table1("530b", 105, 20480, 128, 8, 35, 3, 2520, 2520, 1, 163),
    _Table1("1t", 128, 25600, 160, 8, 64, 1, 3072, 3072, 1, 163),
)
_TABLE_2_SOURCE = "Narayanan et al. 2021 (arXiv 2104.04473), table 2, entered as known"
_TABLE_2 = (
    # size, ranks, batch, micro-batch, TFLOP/s a rank: ZeRO-3 without model parallelism, then tp 8 and pp 12 or 35
    ("zero3", "175b", 384, 1536, 4, 144), ("zero3", "175b", 768, 1536, 2, 88), ("zero3", "175b", 1536, 1536, 1, 44),
    ("zero3", "530b", 640, 2560, 4, 138), ("zero3", "530b", 1120, 2240, 2, 98), ("zero3", "530b", 2240, 2240, 1, 48),
    ("ptd", "175b", 384, 1536, 1, 153), ("ptd", "175b", 768, 1536, 1, 149), ("ptd", "175b", 1536, 1536, 1, 141),
    ("ptd", "530b", 560, 2240, 1, 171), ("ptd", "530b", 1120, 2240, 1, 167), ("ptd", "530b", 2240, 2240, 1, 159),
)  # fmt: skip
_TABLE_2_SIZES = {"175b": (96, 12288, 96, 12), "530b": (105, 20480, 128, 35)}


def _narayanan() -> Iterator[PublishedRun]:
    for row in _TABLE_1:
        yield _row(
            name=f"sc21-{row.size}",
            cluster="a100",
            model=_gpt(row.layers, row.hidden, row.heads, vocab_size=51200),
            tp=row.tp, pp=row.pp, dp=row.ranks // (row.tp * row.pp), batch=row.batch, micro_batch=row.micro_batch,
            chunks=row.chunks,
            how=_RECOMPUTED,
            source=_SC21 + "run_table_1.sh",
            tflops=row.tflops,
            # run_table_1.sh: torch's DDP up to 18B, whose all-reduce overlaps; Megatron's own after.
            dp_overlap=row.pp == 1,
            assumed="dropout 0.1; fp16 gradients, no sharded optimizer (the framework's defaults)",
            **_FP16_WHOLE,
        )  # fmt: skip
    for kind, size, ranks, batch, micro_batch, tflops in _TABLE_2:
        layers, hidden, heads, pp = _TABLE_2_SIZES[size]
        is_sharded = kind == "zero3"
        plan = {"shards_parameters": True, "reduce_bytes": 2.0} if is_sharded else {"dp_overlap": False, **_FP16_WHOLE}
        tp, pp = (1, 1) if is_sharded else (8, pp)
        yield _row(
            name=f"sc21-{kind}-{size}-{ranks}",
            cluster="a100",
            model=_gpt(layers, hidden, heads, vocab_size=51200),
            tp=tp, pp=pp, dp=ranks // (tp * pp), batch=batch, micro_batch=micro_batch,
            how=_RECOMPUTED,
            source=_TABLE_2_SOURCE,
            tflops=tflops,
            assumed="1F1B, dropout 0.1, recomputed layers; fp16 gradients",
            **plan,
        )  # fmt: skip


# -- Megatron-Turing and MegaScale ------------------------------------------------------------------------------------


def _turing() -> Iterator[PublishedRun]:
    for nodes, step_s in ((280, 60.1), (350, 50.2), (420, 44.4)):
        yield _row(
            name=f"mt-nlg-{nodes}",
            cluster="a100",
            model=_gpt(105, 20480, 128, vocab_size=51200),
            tp=8, pp=35, dp=nodes // 35, batch=1920, micro_batch=1,
            how=_RECOMPUTED,
            source="Smith et al. 2022 (arXiv 2201.11990), section 2.4, entered as known",
            step_s=step_s,
            dp_overlap=False,
            shard_ranks=1,
            assumed="1F1B, dropout 0.1, recomputed layers; bf16 with float32 gradients; no sharded optimizer",
        )  # fmt: skip


def _megascale() -> Iterator[PublishedRun]:
    rows = ((256, 768, 40.0), (1024, 768, 11.9), (3072, 6144, 29.02), (12288, 6144, 8.57))
    for ranks, batch, step_s in rows:
        yield _row(
            name=f"megascale-baseline-{ranks}",
            cluster="a100",
            model=_gpt(96, 12288, 128, vocab_size=64000),
            tp=8, pp=8, dp=ranks // 64, batch=batch, micro_batch=1, chunks=6,
            how=Numerics(
                stack=Stack.MEGATRON, attention=Attention.FLASH_2, has_dropout=True, reduces_beside=True
            ),
            source="Jiang et al. 2024 (arXiv 2402.15627), table 2, Megatron-LM, entered as known",
            step_s=step_s,
            dp_overlap=False,
            accumulate_bytes=8.0,
            assumed="the maker's A100 nodes; FlashAttention-2; sequence parallel, no recomputation; distributed "
            "optimizer without overlap, fused accumulation (Megatron-LM of 2023)",
        )  # fmt: skip


# -- BigScience on V100 -----------------------------------------------------------------------------------------------

_TUNING = "bigscience experiments/tr8-104B.md at 9e64ede, sections after the corrected width"
_TR1 = "bigscience train/tr1-13B-base/"


def _jean_zay_v100() -> Iterator[PublishedRun]:
    sharded: dict[str, Any] = {
        "cluster": "v100-jean-zay", "how": _RECOMPUTED, "micro_batch": 1, "accumulate_bytes": 6.0, "reduce_bytes": 2.0,
        "dp_overlap": False, "assumed": "dropout 0.1; fp16 gradients, ZeRO-1; 8-bit optimizer (bnb) priced as AdamW",
    }  # fmt: skip
    large = _gpt(64, 11600, 80, vocab_size=50688)
    for note, tp, pp, dp, step_s in (
        ("", 4, 32, 1, 696.0), ("-bnb", 4, 32, 1, 688.0), ("-bnb", 4, 16, 2, 681.0), ("-bnb", 2, 32, 2, 633.0),
    ):  # fmt: skip
        yield _row(
            name=f"tr8-104b-tp{tp}-pp{pp}{note}", model=large, tp=tp, pp=pp, dp=dp, batch=2048, step_s=step_s,
            source=_TUNING, **sharded,
        )  # fmt: skip
    small = _gpt(40, 5120, 32, vocab_size=50432)
    for dp, batch, step_s, place in (
        (2, 64, 17.25, "chronicles.md, NCCL experiments"),
        (32, 1024, 22.13, "chronicles.md, iterations 29020 to 29090; 64 nodes in tr1-13B-round1.slurm then"),
        (64, 1024, 13.2482, "README.md, iteration 168000; 128 nodes"),
    ):
        yield _row(
            name=f"tr1-13b-{8 * dp}", model=small, tp=2, pp=4, dp=dp, batch=batch, step_s=step_s,
            source=_TR1 + place, **sharded,
        )  # fmt: skip


# -- NVIDIA NeMo ------------------------------------------------------------------------------------------------------

_LAUNCHER = "NVIDIA/NeMo-Framework-Launcher README.md and conf/training/gpt3 at 3579cdb3 (September 2022)"


def _nemo_2022() -> Iterator[PublishedRun]:
    for nodes, rate in ((1, 40345), (32, 1159288)):
        yield _row(
            name=f"nemo2022-5b-{8 * nodes}", cluster="a100", model=_gpt(24, 4096, 32, vocab_size=50304),
            tp=1, pp=1, dp=8 * nodes, batch=2048, micro_batch=2, how=_SCORES, source=_LAUNCHER,
            rate=rate / (8 * nodes), accumulate_bytes=8.0,
            assumed="distributed optimizer with overlap; float32 gradients",
        )  # fmt: skip
    selective = Numerics(attention=Attention.SCORES_IN_MEMORY, recompute=Recompute.SCORES, has_dropout=True)
    for nodes, rate in ((8, 7500), (128, 109684)):
        yield _row(
            name=f"nemo2022-175b-{8 * nodes}", cluster="a100", model=_gpt(96, 12288, 96, vocab_size=51200),
            tp=8, pp=8, dp=nodes // 8, batch=2048, micro_batch=2, how=selective, source=_LAUNCHER,
            rate=rate / (8 * nodes), accumulate_bytes=8.0,
            assumed="distributed optimizer with overlap; float32 gradients",
        )  # fmt: skip


_DGXC = "NVIDIA/dgxc-benchmarking nemotron/ at v25.02 (NeMo 24.12, DGX H100)"


def _dgx_cloud() -> Iterator[PublishedRun]:
    sizes: dict[str, Any] = {
        "vocab_size": 256000, "seq_len": 4096, "num_kv_heads": 8, "has_bias": False, "has_embed_norm": False,
        "is_tied": False,
    }  # fmt: skip
    small = decoder_model(num_layers=32, hidden=6144, num_heads=48, ffn_hidden=24576, **sizes)
    for fmt, ranks, step_s in (
        (NumberFormat.BF16, 16, 2.812), (NumberFormat.BF16, 2048, 2.887),
        (NumberFormat.FP8, 16, 2.039), (NumberFormat.FP8, 2048, 2.12),
    ):  # fmt: skip
        yield _row(
            name=f"dgxc-nemotron-15b-{ranks}-{fmt.value}", cluster="h100", model=small, tp=4, pp=1, dp=ranks // 4,
            batch=4 * ranks, micro_batch=4, 
            how=Numerics(fmt=fmt, attention=Attention.CUDNN, tp_overlap=True, reduces_beside=True),
            source=_DGXC, step_s=step_s, accumulate_bytes=8.0, gather_bytes=1.0 if fmt is NumberFormat.FP8 else 2.0,
            assumed="distributed optimizer with overlap; float32 gradients; fused accumulation",
        )  # fmt: skip
    large = decoder_model(num_layers=96, hidden=18432, num_heads=96, ffn_hidden=73728, **sizes)
    how = Numerics(
        fmt=NumberFormat.FP8, attention=Attention.FLASH_2, recompute=Recompute.SCORES, tp_overlap=True,
        reduces_beside=True,
    )  # fmt: skip
    for ranks, step_s in ((128, 3.16), (2048, 3.49)):
        yield _row(
            name=f"dgxc-nemotron-340b-{ranks}-fp8", cluster="h100", model=large, tp=8, pp=8, dp=ranks // 64,
            batch=ranks // 4, micro_batch=1, chunks=12, how=how, source=_DGXC, step_s=step_s, accumulate_bytes=8.0,
            reduce_bytes=2.0, gather_bytes=1.0, starts_together=True,
            assumed="NVTE_FUSED_ATTN=0 is FlashAttention-2; its bf16 rows run context parallelism",
        )  # fmt: skip
