"""Runs that were published by MosaicML, IBM and NVIDIA, entered after the model of `perf` was written.

None of them had a part in any entry of the hardware table or in the form of the model before its first contact with
them (docs/measured/first_contact/predictions_1.json). Later changes of the model have sources of their own.

[Note: which rows]
MosaicML's tables hold some 200 rows. Taken are, for each device and each model of 1B to 70B, the row at 2,048 tokens on
the fewest and that on the most devices, and that at 8,192 tokens on 8; models below 1B are left out. IBM's tables are
whole. NVIDIA's are whole but for what `StepPlan` cannot express: context parallelism, experts, fine-tuning.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from emberward.layout import Model
from emberward.perf import CLUSTERS, Attention, NumberFormat, Numerics, Recompute, Stack, StepPlan
from emberward.plan import interleaved, one_f_one_b
from emberward.report._published_model import decoder_model
from emberward.report._published_run import PublishedRun, slots_of


def later_runs() -> Iterator[PublishedRun]:
    """All rows of this file."""
    yield from _mosaic()
    yield from _ibm()
    yield from _nvidia()


# -- MosaicML ---------------------------------------------------------------------------------------------------------

_MOSAIC = "mosaicml/llm-foundry scripts/train/benchmarking/README.md at 8c8dd48; sizes: scripts/train/yamls/pretrain"
_MPT = {
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
"""Layers, hidden, heads."""


class _Row(NamedTuple):
    cluster: str
    size: str
    seq_len: int
    ranks: int
    micro_batch: int
    global_batch: int
    rate: float
    recomputes: bool
    note: str = ""
    """``pure``: gradients are reduced in 16 bits; ``grad``: SHARD_GRAD_OP; ``fp8``."""


_MOSAIC_ROWS = (
    _Row("h100", "1b", 2048, 8, 14, 112, 45455, False),
    _Row("h100", "1b", 2048, 512, 12, 6144, 39837, False, "grad"),
    _Row("h100", "1b", 8192, 8, 3, 96, 29157, False),
    _Row("h100", "3b", 2048, 16, 10, 480, 24142, False),
    _Row("h100", "3b", 2048, 512, 8, 4096, 21664, False, "grad"),
    _Row("h100", "3b", 8192, 8, 3, 144, 16578, False),
    _Row("h100", "7b", 2048, 8, 6, 48, 10643, False),
    _Row("h100", "7b", 2048, 512, 6, 3072, 9670, False),
    _Row("h100", "7b", 8192, 8, 8, 128, 6935, True),
    _Row("h100", "13b", 2048, 8, 2, 16, 4792, False),
    _Row("h100", "13b", 2048, 512, 16, 8192, 4952, True),
    _Row("h100", "30b", 2048, 8, 3, 504, 2002, True),
    _Row("h100", "30b", 2048, 512, 8, 4096, 2115, True),
    _Row("h100", "30b", 8192, 8, 1, 168, 1384, True),
    _Row("h100", "70b", 2048, 32, 2, 1024, 882, True),
    _Row("h100", "70b", 2048, 512, 8, 4096, 1007, True),
    _Row("h100", "3b", 2048, 8, 10, 480, 30586, False, "fp8"),
    _Row("h100", "3b", 8192, 8, 3, 144, 19146, False, "fp8"),
    _Row("h100", "1b", 8192, 8, 2, 64, 32010, False, "fp8"),
    _Row("a100", "1b", 2048, 8, 14, 448, 20513, False),
    _Row("a100", "1b", 8192, 8, 3, 96, 13814, False),
    _Row("a100", "3b", 2048, 8, 10, 160, 10811, False),
    _Row("a100", "3b", 8192, 8, 3, 144, 7695, False),
    _Row("a100", "7b", 2048, 8, 6, 96, 4641, False),
    _Row("a100", "7b", 8192, 8, 8, 128, 3206, True),
    _Row("a100", "13b", 2048, 8, 2, 48, 2262, False),
    _Row("a100", "13b", 8192, 8, 5, 120, 1795, True),
    _Row("a100", "30b", 2048, 8, 3, 504, 916, True),
    _Row("a100", "30b", 8192, 8, 1, 168, 574, True),
    _Row("a100", "70b", 2048, 32, 2, 1024, 373, True, "pure"),
    _Row("a100", "70b", 2048, 64, 8, 2048, 410, True, "pure"),
    _Row("a100-40gb", "1b", 2048, 8, 8, 512, 19271, False, "pure"),
    _Row("a100-40gb", "1b", 2048, 128, 10, 1280, 18647, False, "pure"),
    _Row("a100-40gb", "1b", 8192, 8, 2, 128, 13474, False, "pure"),
    _Row("a100-40gb", "3b", 2048, 8, 5, 320, 10065, False, "pure"),
    _Row("a100-40gb", "3b", 2048, 128, 6, 768, 9538, False, "pure"),
    _Row("a100-40gb", "3b", 8192, 8, 1, 64, 7149, False, "pure"),
    _Row("a100-40gb", "7b", 2048, 8, 12, 384, 3679, True, "pure"),
    _Row("a100-40gb", "7b", 2048, 128, 18, 2304, 3623, True, "pure"),
    _Row("a100-40gb", "7b", 8192, 8, 3, 96, 2887, True, "pure"),
    _Row("a100-40gb", "13b", 2048, 8, 4, 512, 1668, True, "pure"),
    _Row("a100-40gb", "13b", 2048, 128, 16, 2048, 1972, True, "pure"),
    _Row("a100-40gb", "13b", 8192, 8, 1, 128, 1407, True, "pure"),
    _Row("a100-40gb", "30b", 2048, 32, 4, 128, 857, True, "pure"),
    _Row("a100-40gb", "30b", 2048, 128, 6, 768, 865, True, "pure"),
    _Row("a100-40gb", "70b", 2048, 64, 2, 128, 276, True, "pure"),
    _Row("a100-40gb", "70b", 2048, 128, 4, 512, 376, True, "pure"),
)


def _mosaic() -> Iterator[PublishedRun]:
    for row in _MOSAIC_ROWS:
        layers, hidden, heads = _MPT[row.size]
        fmt = NumberFormat.FP8 if row.note == "fp8" else NumberFormat.BF16
        yield _sharded(
            name=f"mpt-{row.size}-{row.cluster}-{row.ranks}-s{row.seq_len}" + ("-fp8" if row.note == "fp8" else ""),
            cluster=row.cluster,
            model=decoder_model(
                num_layers=layers, hidden=hidden, num_heads=heads, ffn_hidden=4 * hidden, vocab_size=50368,
                seq_len=row.seq_len, has_embed_norm=False,
            ),
            ranks=row.ranks,
            micro_batch=row.micro_batch,
            num_mb=row.global_batch // (row.ranks * row.micro_batch),
            how=Numerics(
                fmt=fmt,
                attention=Attention.FLASH_2 if row.ranks == 512 else Attention.FLASH_1,
                stack=Stack.EAGER,
                recompute=Recompute.LAYER if row.recomputes else Recompute.NONE,
            ),
            keeps_gathered=row.note == "grad",
            reduce_bytes=2.0 if row.note == "pure" else 4.0,
            rate=row.rate,
            source=_MOSAIC,
            assumed="eager; Triton attention as FlashAttention-1, on 512 ranks -2; DEFAULT reduces 32 bits, PURE 16",
        )  # fmt: skip


def _sharded(
    *, name: str, cluster: str, model: Model, ranks: int, micro_batch: int, num_mb: int, how: Numerics,
    reduce_bytes: float, rate: float, source: str, assumed: str, keeps_gathered: bool = False,
    shard_ranks: int | None = None,
) -> PublishedRun:  # fmt: skip
    """A run in which the parameters are sharded over all ranks (FSDP)."""
    return PublishedRun(
        name=name,
        cluster=CLUSTERS[cluster],
        model=model,
        plan=StepPlan(
            tp=1,
            dp=ranks,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(one_f_one_b(1, num_mb)),
            stage_layers=(len(model.layers),),
            how=how,
            shards_parameters=True,
            has_root_unit=True,
            reduce_bytes=reduce_bytes,
            keeps_gathered=keeps_gathered,
            shard_ranks=shard_ranks,
        ),
        source=source,
        tokens_per_s_per_rank=rate,
        assumed=assumed,
    )


# -- IBM --------------------------------------------------------------------------------------------------------------

_IBM = "foundation-model-stack/fms-fsdp README.md at 5a296af"
_IBM_EAGER = "foundation-model-stack/fms-fsdp README.md at 0d31998, before torch.compile"


def _llama(num_layers: int, hidden: int, heads: int, ffn: int, kv_heads: int | None, **sizes: Any) -> Model:
    return decoder_model(
        num_layers=num_layers, hidden=hidden, num_heads=heads, ffn_hidden=ffn, num_kv_heads=kv_heads, is_gated=True,
        has_bias=False, has_embed_norm=False, is_tied=False, **sizes,
    )  # fmt: skip


_LLAMA_2: dict[str, Any] = {
    "7b": (32, 4096, 32, 11008, None),
    "13b": (40, 5120, 40, 13824, None),
    "34b": (48, 8192, 64, 22016, 8),
    "70b": (80, 8192, 64, 28672, 8),
}
_IBM_RECOMPUTED = {"7b": 0.0, "13b": 0.4, "34b": 1.0, "70b": 1.0}
_IBM_ROWS = (
    ("a100-efa", 128, _IBM, (("7b", 2, 4550), ("13b", 2, 2150), ("34b", 2, 820), ("70b", 2, 410))),
    ("h100-800g", 96, _IBM, (("7b", 2, 9600), ("13b", 2, 4850), ("34b", 2, 1830), ("70b", 2, 890))),
    ("a100-efa", 128, _IBM_EAGER, (("7b", 2, 3760), ("13b", 1, 1700), ("34b", 8, 772), ("70b", 6, 380))),
)


def _ibm() -> Iterator[PublishedRun]:
    for cluster, ranks, source, rows in _IBM_ROWS:
        is_eager = source is _IBM_EAGER
        for size, micro_batch, rate in rows:
            share = _IBM_RECOMPUTED[size] * (not is_eager or size != "13b")
            yield _sharded(
                name=f"fms-{size}-{cluster}" + ("-eager" if source is _IBM_EAGER else ""),
                cluster=cluster,
                model=_llama(*_LLAMA_2[size], vocab_size=32000, seq_len=4096),
                ranks=ranks,
                micro_batch=micro_batch,
                num_mb=1,
                how=Numerics(
                    stack=Stack.EAGER if is_eager else Stack.FUSED,
                    recompute=Recompute.LAYER if share else Recompute.NONE,
                    recompute_share=share,
                ),
                shard_ranks=8 if size == "7b" or (is_eager and size == "13b") else None,
                reduce_bytes=2.0,
                rate=rate,
                source=source,
                assumed="bf16 on the wire both ways (fms bfSixteen); 7b HSDP, as is 13b eager; 34b and 70b recompute "
                "every layer and 13b 0.4 of them, as utilisation of hardware over that of the model says",
            )


# -- NVIDIA -----------------------------------------------------------------------------------------------------------

_NEMO = "NVIDIA/NeMo docs/source/performance/performance_summary.md at 070a0bb (24.07, DGX H100, FP8)"
_BRIDGE = "NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md at 00b7660 (25.11, DGX H100, FP8)"


class _Nemo(NamedTuple):
    name: str
    sizes: tuple[int, int, int, int, int | None]
    """Layers, hidden, heads, width of the feed-forward layer, heads of keys."""
    vocab_size: int
    seq_len: int
    ranks: int
    global_batch: int
    micro_batch: int
    tp: int
    pp: int
    chunks: int
    rate: float
    shards: bool = False


_GPT_175B = (96, 12288, 96, 49152, None)
_LLAMA_3_8B = (32, 4096, 32, 14336, 8)
_NEMO_ROWS = (
    _Nemo("gpt3-5b", (24, 4096, 32, 16384, None), 51200, 2048, 64, 2048, 4, 1, 1, 1, 22521),
    _Nemo("gpt3-20b", (44, 6144, 48, 24576, None), 51200, 2048, 64, 256, 2, 2, 1, 1, 5851),
    _Nemo("gpt3-175b-128", _GPT_175B, 51200, 2048, 128, 256, 1, 4, 8, 6, 726),
    _Nemo("gpt3-175b-512", _GPT_175B, 51200, 2048, 512, 2048, 2, 4, 8, 6, 782),
    _Nemo("llama2-7b", _LLAMA_2["7b"], 32000, 4096, 8, 128, 1, 1, 1, 1, 16847),
    _Nemo("llama2-13b", _LLAMA_2["13b"], 32000, 4096, 16, 128, 1, 1, 4, 10, 8646),
    _Nemo("llama2-70b", _LLAMA_2["70b"], 32000, 4096, 64, 128, 1, 4, 4, 20, 1707),
    _Nemo("nemotron-8b", (32, 4096, 32, 16384, None), 256000, 4096, 64, 256, 4, 2, 1, 1, 12701),
    _Nemo("nemotron-22b", (40, 6144, 48, 24576, None), 256000, 4096, 64, 256, 2, 2, 4, 10, 4256),
    _Nemo("nemotron-340b", (96, 18432, 96, 73728, 8), 256000, 4096, 128, 32, 1, 8, 8, 12, 322),
    _Nemo("llama3-8b", _LLAMA_3_8B, 128256, 8192, 8, 128, 1, 1, 1, 1, 14451, shards=True),
    _Nemo("llama3-70b", (80, 8192, 64, 28672, 8), 128256, 8192, 64, 128, 1, 4, 8, 5, 1602),
)


def _nvidia() -> Iterator[PublishedRun]:
    for row in _NEMO_ROWS:
        is_llama = row.name.startswith("llama")
        layers, hidden, heads, ffn, kv_heads = row.sizes
        model = decoder_model(
            num_layers=layers, hidden=hidden, num_heads=heads, ffn_hidden=ffn, num_kv_heads=kv_heads,
            vocab_size=row.vocab_size, seq_len=row.seq_len, is_gated=is_llama, has_bias=row.name.startswith("gpt"),
            has_embed_norm=False, is_tied=row.name.startswith("gpt"),
        )  # fmt: skip
        dp = row.ranks // (row.tp * row.pp)
        num_mb = row.global_batch // (dp * row.micro_batch)
        stages = row.pp * row.chunks
        schedule = interleaved(row.pp, num_mb, row.chunks) if row.chunks > 1 else one_f_one_b(row.pp, num_mb)
        yield PublishedRun(
            name=f"nemo-{row.name}",
            cluster=CLUSTERS["h100"],
            model=model,
            plan=StepPlan(
                tp=row.tp,
                dp=dp,
                micro_batch=row.micro_batch,
                num_mb=num_mb,
                orders=slots_of(schedule),
                stage_layers=(layers // stages,) * stages,
                how=Numerics(
                    fmt=NumberFormat.FP8, attention=Attention.CUDNN, tp_overlap=row.tp > 1, reduces_beside=True
                ),
                shards_parameters=row.shards,
                accumulate_bytes=8.0,
                starts_together=row.chunks > 1,
            ),
            source=_BRIDGE if row.name.startswith("llama3") else _NEMO,
            tokens_per_s_per_rank=row.rate,
            assumed="sizes of the named models from their papers; no recomputation; distributed optimizer with "
            "overlap, overlap of tp (the framework's recipes); fused accumulation of gradients; bf16 on the wire",
        )
