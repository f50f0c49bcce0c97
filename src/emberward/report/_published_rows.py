"""Published runs read from a file of rows, each with its source, the words of its figure and how the time was found.

[Note: rows]
One rule fills each word that sources use, before any row is predicted:
- hardware: see [Note: hardware of rows];
- ``fp16`` counts as bf16, which runs at the same rate; ``fp8`` is per tensor; TF32 has no rate here;
- ``eager`` attention keeps scores in memory; a stack that is compiled or has kernels of its own is fused;
- ``selective`` is every second product where the row speaks of torchtitan, the scores alone elsewhere (Megatron-LM, and
  Pax, which saves the products with weights);
- dropout where scores are kept in memory and the feed-forward is not gated (GPT's and BERT's default of 0.1);
- gradients of 16 bits are added and sent so, except where a float32 reduction is stated; float32 ones are added to what
  16-bit products give, in the product itself where the framework is Megatron-LM or sends them sharded;
- ``AMP`` of float32 weights casts them for each micro-batch, and their gradients back; its ``zero1``, in a trainer over
  torch's DDP, all-reduces float32 gradients and gathers float32 parameters;
- AdamW's states are float32 where a row does not say that they are bf16: then 14 bytes a parameter fused, 40 eager;
- reductions overlap the backward unless there is a pipeline, or as the row says; not in DeepSpeed's ZeRO 1 and 2, where
  ``overlap_comm`` is false by default (its page of configuration); in NeMo and Megatron Bridge with a pipeline too, as
  each distributed optimizer does there (nemo/lightning/pytorch/callbacks/megatron_comm_overlap.py), and Apex's by
  default (``overlap_grad_sync``);
- layers a stage where the source lists them; "one layer fewer" on the ends, or layers that fill the stages only so: the
  embedding and the head in its place; else the first stages have one more where the stages do not divide the layers;
- a stack is a compiler's where it says so and is no XLA, whose loss is not known to be in its kernels; Megatron-LM's
  where its name stands without NeMo's or Megatron Bridge's, whose recipes fuse it (``cross_entropy_loss_fusion``);
- an eager model of GPT's form with its scores in memory writes GELU and its attention out; one of BERT's does not;
- a kernel, number of recomputed layers or sharding in other words than the form's is read by the words of `_ATTENTION`,
  `_RECOMPUTE` and `_SHARDINGS`; what is absent or called open, by `_CLOSED`; a micro-batch from the batch and dp;
- a flash kernel that has no name is taken for cuDNN's on Blackwell, which torch prefers there
  (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, ``check_prefer_cudnn_attention``);
- Megatron-LM and what is built on it keeps buffers for gradients and, with sequence parallelism, sends beside the
  products of the weights' gradients; torch's DDP copies gradients into buckets and back;
- casts to fp8 are a kernel's in a fused stack (Transformer Engine), a compiler's, or an operator each (eager);
  its scales are of old steps where no word says that they are current or of blocks;
- tp's collectives overlap where the row says so, and in what NVIDIA's recipes for performance reach, on which they are
  (nemo/collections/llm/recipes/nemotron4_15b.py, ``pretrain_performance_optimizations``; MLPerf's gpt3 since round 3.1,
  ``TP_COMM_OVERLAP`` in config_common.sh);
- Qwen3 norms its queries and keys; adapters, experts, states in the host's memory and Muon are refused;
- torch's FSDP, by its words and those of torchtitan, has embedding and head in one unit, as where only layers are
  wrapped;
- ``hybrid`` sharding is over the ranks that it names, else over a node's;
- float32 weights under ``AMP``, or a float32 master without sharding in torch (eager or compiled), are autocast.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from emberward.perf import Attention, Casts, NumberFormat, Numerics, Recompute, Stack, StepPlan
from emberward.plan import interleaved, one_f_one_b
from emberward.report._published_hardware import cluster_of
from emberward.report._published_model import decoder_model
from emberward.report._published_run import PublishedRun, slots_of

_ATTENTION = (
    (r"cudnn|transformer engine|fused attention", Attention.CUDNN),
    (r"flash[- _]?(attention)?[- _]?[34]|fa[34]", Attention.FLASH_3),
    (r"flash[- _]?(attention)?[- _]?1|fa1|xformers|mem(ory)?[-_ ]eff", Attention.FLASH_1),
    (r"dense|eager|plain|unfused|scores|math|standard|naive|softmax", Attention.SCORES_IN_MEMORY),
    (r"flash|fa2|sdpa|flex|pallas|splash|triton|\bck\b", Attention.FLASH_2),
)
"""Kernels by words of them; the first that is found counts."""
_RECOMPUTE = (
    (r"^(none|no\b|off|false|without)", Recompute.NONE),
    (r"selective|attention|core_attn|minimal|partial|custom", Recompute.SCORES),
    (r"full|checkpoint|saveable|every|layer|block|true|\bon\b", Recompute.LAYER),
)
_OPEN = frozenset({"", "open", "not stated", "unknown", "unspecified"})
"""Words of a source that leaves something open, as an absent one does."""
_CLOSED: dict[str, dict[str, Any]] = {
    "numerics": {"compiled_fused": "eager", "recompute": "none", "grads_format": "bf16"},
    "layout": {"tp": 1, "pp": 1, "virtual_stages": 1, "sharding": "none", "sequence_parallel": False},
    "model": {"tied": False},
}
"""What stands where a row is silent: the defaults of torch's trainers, of which none compiles, recomputes or splits."""
_SHARDINGS = (
    (("fsdp", "fullshard", "zerostage3", "zero3offload", "stage3"), "zero3"),
    (("zerostage2", "shardgradop", "stage2"), "zero2"),
    (("distributedoptim", "zerostage1", "stage1", "zero1"), "zero1"),
    (("ddp", "dp", "replicat", "plain", "zero0", "no"), "none"),
)
"""Words of sharding that are not the form's own."""
_OVERLAPS = (
    (r"neither overlapped|no overlap|overlap_comm false|doesn't overlap", False),
    (r"overlap(ped)? (grad|reduc|sync)|with overlap", True),
)
"""Words of rows on whether gradients are reduced beside the backward; the first that is found counts."""
_UNPRICED = re.compile(
    r"\b(q?lora|(?<!network )(?<!channel )adapters?(?! of \d)|(cpu|nvme)[- ]offload|experts|moe|muon|shampoo)\b",
    re.IGNORECASE,
)
"""Words of what a StepPlan cannot say: frozen weights with adapters (those of a network have a rate), states in the
host's memory, experts, optimizers that multiply matrices."""
_TP_OVERLAP = re.compile(
    r"(tp|tensor-parallel)[ _](comm\w*[ _])?overlap|overlapped (tp|tensor-parallel)", re.IGNORECASE
)
_NVIDIA_S_OWN = re.compile(r"dgxc-benchmarking|performance recipes|performance[- ]summary|training_results_v(?!3\.0)")
"""Sources of what NVIDIA's recipes for performance reach, by words."""
_SCALES = ((r"mxfp8|mx-fp8", Casts.BLOCKS), (r"fp8[- ]cs\b|\bcurrent\b\)? [\w()-]*\s?scaling", Casts.CURRENT))
"""Transformer Engine's scales by words; else those of old steps."""
_TORCH_FSDP = re.compile(r"fsdp|fully_shard|torchtitan")
_OTHER_SHARDING = re.compile(r"\b(maxtext|pax|paxml|jax|deepspeed|megatron|gemini|yafsdp)\b")
"""Words of sharding by torch's FSDP, and of others that sources call so too."""
_DENIED = re.compile(r"\b(no|not|without)\b|false|\boff\b", re.IGNORECASE)


def rows_in(
    path: Path, *, without: frozenset[str] = frozenset(), refused: dict[str, str] | None = None
) -> Iterator[PublishedRun]:
    """The rows of a file of [Note: rows]; of `without`, the beginnings of names, none. `refused` takes the reason of
    each row that cannot be read; without it raises KeyError or ValueError for words that the note has no rule for."""
    for row in json.loads(path.read_text(encoding="utf-8")):
        if row["name"].startswith(tuple(without)):
            continue
        try:
            yield _run(_with_defaults(row))
        except (KeyError, TypeError, ValueError) as error:
            if refused is None:
                raise
            refused[row["name"]] = str(error)


def _with_defaults(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its open words, and with what stands for those that the rules need."""
    parts = {
        part: {name: said for name, said in row[part].items() if said is not None and str(said).lower() not in _OPEN}
        for part in ("hardware", "model", "layout", "batch", "numerics")
    }
    return row | {part: _CLOSED.get(part, {}) | said for part, said in parts.items()}


_Meant = TypeVar("_Meant")
_FUSED_UPDATE = ("fused optimizer", "fused Adam", "fused AdamW", "FusedAdam", "FusedLAMB")
_HEAD_SIZE = re.compile(r"head_dim (\d+)\b")
_BLACKWELL = re.compile(r"\bG?B[23]00\b")
_GATHERED_FP8 = ("weights gathered in fp8", "float8 all-gather on")


def _numerics(row: dict[str, Any]) -> Numerics:
    said, layout = row["numerics"], row["layout"]
    attention = _attention(row)
    recompute = _meant(_RECOMPUTE, said["recompute"])
    if recompute is Recompute.SCORES and any("torchtitan" in words for words in (row["name"], *row["assumed"])):
        recompute = Recompute.EVERY_OTHER
    return Numerics(
        fmt=NumberFormat.FP8
        if any(word in said["weights_compute"] for word in ("fp8", "float8"))
        else NumberFormat.BF16,
        casts=_casts(row),
        attention=attention,
        stack=_stack(row, attention),
        recompute=recompute,
        has_dropout=attention is Attention.SCORES_IN_MEMORY and not row["model"]["gated_mlp"],
        sequence_parallel=layout["sequence_parallel"],
        tp_overlap=_overlaps_tp(row),
        reduces_beside=layout["sequence_parallel"] and _is_megatron(row),
        is_autocast=_is_autocast(row),
    )


def _overlaps_tp(row: dict[str, Any]) -> bool:
    """Whether tp's collectives run beside products: as the row says, else in NVIDIA's recipes for performance."""
    said = [words for words in row["assumed"] if _TP_OVERLAP.search(words)]
    if said:
        return any(not _DENIED.search(words) for words in said)
    return bool(row["layout"]["sequence_parallel"] and _is_megatron(row) and _NVIDIA_S_OWN.search(_fused_words(row)))


def _meant(words: Sequence[tuple[str, _Meant]], said: str) -> _Meant:
    """What a row's word means. Raises ValueError for a word that no rule knows."""
    found = next((meant for known, meant in words if re.search(known, said.lower())), None)
    if found is None:
        raise ValueError(f"no rule knows the word {said!r}")
    return found


def _attention(row: dict[str, Any]) -> Attention:
    said = row["numerics"].get("attention") or _usual_attention(row)
    is_any = re.fullmatch(r"(torch )?(flash|sdpa)( \(?sdpa\)?)?", said.lower())
    return Attention.CUDNN if is_any and _BLACKWELL.search(row["hardware"]["gpu"]) else _meant(_ATTENTION, said)


def _usual_attention(row: dict[str, Any]) -> str:
    """Where a row leaves the kernel open: torch's since its scaled_dot_product_attention took FlashAttention-2 (release
    notes of 2.2), which no device before Ampere has."""
    return "eager" if any(word in row["hardware"]["gpu"] for word in ("V100", "T4", "TITAN")) else "flash2"


def _stack(row: dict[str, Any], attention: Attention) -> Stack:
    said = row["numerics"]["compiled_fused"]
    if not said.startswith("eager"):
        is_inductor = said.startswith("compiled") and "XLA" not in " ".join((said, *row["assumed"]))
        if is_inductor:
            return Stack.COMPILED
        return Stack.MEGATRON if "megatron" in _fused_words(row) and not _is_nemo(row) else Stack.FUSED
    is_gpt = attention is Attention.SCORES_IN_MEMORY and not row["model"]["gated_mlp"] and "bert" not in row["name"]
    return Stack.WRITTEN_OUT if is_gpt else Stack.EAGER


def _fused_words(row: dict[str, Any]) -> str:
    """What a row says of itself, in small letters, where its stack is a library's fused one; else nothing."""
    is_fused = row["numerics"]["compiled_fused"].startswith("fused")
    return " ".join((row["name"], row.get("source", ""), *row["assumed"])).lower() if is_fused else ""


def _is_megatron(row: dict[str, Any]) -> bool:
    """Whether the framework is Megatron-LM or is built on it, without DeepSpeed's engine."""
    words = _fused_words(row)
    return ("megatron" in words or "nemo" in words) and "deepspeed" not in words


def _is_nemo(row: dict[str, Any]) -> bool:
    """Whether the optimizer is set up by NeMo or Megatron Bridge, or is Apex's distributed one."""
    return re.search(r"nemo|megatron-bridge|distributed[_ ]fused[_ ]adam", _fused_words(row)) is not None


def _casts(row: dict[str, Any]) -> Casts:
    """Who casts to fp8, by the words for the stack and for the scales."""
    stack = row["numerics"]["compiled_fused"]
    if stack.startswith("eager"):
        return Casts.EAGER
    if stack.startswith("compiled") and "TE" not in stack:
        return Casts.COMPILED
    return next((casts for words, casts in _SCALES if re.search(words, _fused_words(row))), Casts.KERNEL)


def _sharding(row: dict[str, Any]) -> str:
    """How parameters, gradients and states are shared out: ``zero1`` to ``zero3``, each with the ranks of a group where
    they are fewer than dp, or ``none``."""
    said = row["layout"]["sharding"].lower().replace("-", "").replace(" ", "")
    group = row["layout"].get("shard_group")
    kind = next((own for words, own in _SHARDINGS if said.startswith(words)), said)
    if "hybrid" in said:
        over = re.search(r"over(\d+)", said)
        kind, group = "hsdp", group or (over and over[1])
    if kind.startswith("hsdp") and "(" not in kind and not group:
        group = row["hardware"]["gpus_per_node"]
    return f"{kind}({group})" if group and "(" not in kind else kind


def _is_torch_fsdp(row: dict[str, Any]) -> bool:
    """Whether parameters are sharded by torch's FSDP, of either generation."""
    words = " ".join((row["name"], row["layout"]["sharding"], row["source"], *row["assumed"])).lower()
    return bool(_TORCH_FSDP.search(words) and not _OTHER_SHARDING.search(words))


def _is_autocast(row: dict[str, Any]) -> bool:
    said = row["numerics"]
    sharding = _sharding(row)
    if sharding.startswith(("zero3", "hsdp", "zero2")) or said["compiled_fused"].startswith("fused"):
        return False
    words, is_whole = said["weights_compute"], sharding == "none"
    return (words.startswith("fp32 weights") and "AMP" in words) or (words.startswith("fp32 master") and is_whole)


def _gradients(row: dict[str, Any]) -> dict[str, Any]:
    """How gradients are added, sent and sharded, and how parameters are gathered."""
    grads, sharding = row["numerics"]["grads_format"], _sharding(row)
    is_wide = grads.startswith("fp32")
    words = row["numerics"]["weights_compute"]
    is_autocast = "AMP" in words and words.startswith("fp32 weights")
    is_deepspeed = sharding.startswith(("zero1", "zero2")) and any("DeepSpeed ZeRO" in said for said in row["assumed"])
    is_wide_on_wire = is_wide or "reduce_dtype float32" in grads
    found: dict[str, Any] = {
        "accumulate_bytes": 10.0 if is_wide else 6.0,
        "reduce_bytes": 4.0 if is_wide_on_wire else 2.0,
        "dp_overlap": next(
            (overlaps for words, overlaps in _OVERLAPS if any(re.search(words, said) for said in row["assumed"])),
            (row["layout"]["pp"] == 1 and not is_deepspeed) or (sharding.startswith("zero1") and _is_nemo(row)),
        ),
        "starts_together": row["layout"]["virtual_stages"] > 1 and (_is_megatron(row) or _is_nemo(row)),
    }
    stack = row["numerics"]["compiled_fused"]
    if stack.startswith("eager") and any(word in stack for word in _FUSED_UPDATE):
        found["optimizer_bytes"] = 42.0
    if states := next((said for said in row["assumed"] if "AdamW states" in said and "bf16" in said), None):
        is_fused = "fused AdamW" in states or not row["numerics"]["compiled_fused"].startswith("eager")
        found["optimizer_bytes"] = 14.0 if is_fused else 40.0
    if is_wide and _is_megatron(row):
        found["accumulate_bytes"] = 8.0
    kind, _, ranks = sharding.partition("(")
    found["keeps_gradients"] = kind == "zero1" and _is_megatron(row)
    if kind == "none":
        found["shard_ranks"] = 1
        has_buckets = stack.startswith(("eager", "compiled")) and "XLA" not in stack and _dp(row["layout"]) > 1
        found["bucket_bytes"] = 4 * found["reduce_bytes"] if has_buckets else 0.0
    elif ranks:
        found["shard_ranks"] = int(ranks.rstrip(")"))
    if kind in ("zero3", "hsdp"):
        found["shards_parameters"] = True
        found["has_root_unit"] = _is_torch_fsdp(row)
        # Computing in fp8 does not gather in fp8: a scale by row, or Transformer Engine's of old steps, gathers bf16.
        found["gather_bytes"] = 1.0 if any(words in said for said in row["assumed"] for words in _GATHERED_FP8) else 2.0
    elif kind == "zero2":
        found["scatters_each"] = True
    elif is_autocast:
        found |= {"cast_bytes": 12.0, "accumulate_bytes": 12.0}
        if kind == "zero1":
            found |= {"gather_bytes": 4.0, "reduce_bytes": 8.0}
    return found


def _stage_layers(row: dict[str, Any]) -> tuple[int, ...]:
    stages, said = row["layout"]["pp"] * row["layout"]["virtual_stages"], row["model"].get("stage_layers")
    if said is not None and said.startswith("["):
        return tuple(json.loads(said[: said.index("]") + 1]))
    num_layers = row["model"]["layers"]
    has_ends = said is not None or (num_layers % stages != 0 and (num_layers + 2) % stages == 0)
    each, rest = divmod(num_layers + (2 if has_ends else 0), stages)
    layers = [each + (stage < rest) for stage in range(stages)]
    if has_ends:
        layers[0] -= 1
        layers[-1] -= 1
    return tuple(layers)


def _dp(layout: dict[str, Any]) -> int:
    """Data-parallel ranks, as stated or what is left of all."""
    return int(layout.get("dp") or layout["gpus"] // (layout["tp"] * layout["pp"]))


def _batch(batch: dict[str, Any], dp: int) -> tuple[int, int]:
    """Samples of a micro-batch and micro-batches of a step; one that is open is worked out from the other and the whole
    batch, and where both are open a rank takes its part at once."""
    micro_batch, num_mb = batch.get("micro_batch"), batch.get("accumulation")
    if micro_batch and num_mb:
        return micro_batch, num_mb
    each = max(1, batch["global_sequences"] // dp)
    if micro_batch:
        return micro_batch, max(1, each // micro_batch)
    return max(1, each // (num_mb or 1)), num_mb or 1


def _hardware(row: dict[str, Any]) -> dict[str, Any]:
    """The row's hardware; an H100 whose memory the source counts as 95 GiB is the one of 96 GB (HBM2e)."""
    is_large = row["hardware"]["gpu"].startswith("H100 SXM") and any("has 95 GiB" in said for said in row["assumed"])
    hardware: dict[str, Any] = row["hardware"]
    return hardware | {"gpu": "H100 SXM 96GB (HBM2e)"} if is_large else hardware


def _head_size(row: dict[str, Any]) -> int | None:
    """Of heads that do not divide the width, as the source states it or its reader deduced it."""
    told = (found for words in row["assumed"] if (found := _HEAD_SIZE.match(words)))
    return next((int(found[1]) for found in told), None)


def _has_head_norms(row: dict[str, Any]) -> bool:
    """Qwen3 has them, unless the source says that they were left out."""
    is_qwen3 = "qwen3" in f"{row['name']} {row['model'].get('params_stated') or ''}".lower()
    return is_qwen3 and not any(re.search(r"no [^;]*QK norm", said, re.IGNORECASE) for said in row["assumed"])


def _run(row: dict[str, Any]) -> PublishedRun:
    model, layout, batch = row["model"], row["layout"], row["batch"]
    if (layout.get("context_parallel") or 1) > 1:
        raise ValueError(f"{row['name']}: a StepPlan has no context parallelism")
    if any(word in row["numerics"]["weights_compute"] for word in ("fp4", "tf32")):
        raise ValueError(f"{row['name']}: the table has no rates of {row['numerics']['weights_compute']}")
    for said in (row["name"], row["numerics"]["weights_compute"], *row["assumed"]):
        if (found := _UNPRICED.search(said)) and not _DENIED.search(said):
            raise ValueError(f"{row['name']}: a StepPlan has no {found[0]}")
    pp, chunks = layout["pp"], layout["virtual_stages"]
    dp = _dp(layout)
    micro_batch, num_mb = _batch(batch, dp)
    if chunks > 1 and num_mb % pp:
        raise ValueError(f"{row['name']}: {num_mb} micro-batches do not fill the rounds of {pp} interleaved ranks")
    return PublishedRun(
        name=row["name"],
        cluster=cluster_of(_hardware(row)),
        model=decoder_model(
            num_layers=model["layers"],
            hidden=model["hidden"],
            num_heads=model["heads"],
            num_kv_heads=model.get("kv_heads") or model["heads"],
            head_size=_head_size(row),
            ffn_hidden=model.get("ffn_hidden") or 4 * model["hidden"],
            vocab_size=model["vocab"],
            seq_len=model["seq_len"],
            is_gated=model["gated_mlp"],
            has_bias=not model["gated_mlp"],
            has_embed_norm=False,
            is_tied=model["tied"],
            is_causal=model.get("causal", True) is not False
            and not any("not causal" in said for said in row["assumed"]),
            has_head_norms=_has_head_norms(row),
        ),
        plan=StepPlan(
            tp=layout["tp"],
            dp=dp,
            micro_batch=micro_batch,
            num_mb=num_mb,
            orders=slots_of(interleaved(pp, num_mb, chunks) if chunks > 1 else one_f_one_b(pp, num_mb)),
            stage_layers=_stage_layers(row),
            how=_numerics(row),
            **_gradients(row),
        ),
        source=row["source"],
        step_s=row["step_s"],
        assumed="; ".join(row["assumed"]),
    )
