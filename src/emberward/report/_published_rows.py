"""Published runs read from a file of rows, each with its source, the words of its figure and how the time was found.

[Note: rows]
One rule fills each word that sources use, before any row is predicted:
- hardware: the entry of the same device and number a node whose network is nearest to what is stated, else the maker's;
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
  ``overlap_comm`` is false by default (its page of configuration);
- layers a stage where the source lists them; "one layer fewer" on the ends, or layers that fill the stages only so: the
  embedding and the head in its place; else the first stages have one more where the stages do not divide the layers;
- an eager model of GPT's form with its scores in memory writes GELU and its attention out; one of BERT's does not;
- float32 weights under ``AMP``, or a float32 master without sharding in torch (eager or compiled), are autocast.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emberward.perf import Attention, NumberFormat, Numerics, Recompute, Stack, StepPlan
from emberward.plan import interleaved, one_f_one_b
from emberward.report._published_model import decoder_model
from emberward.report._published_run import PublishedRun, slots_of

_ATTENTION = {
    "eager": Attention.SCORES_IN_MEMORY,
    "flash1": Attention.FLASH_1,
    "flash2": Attention.FLASH_2,
    "flash3": Attention.FLASH_3,
    "cudnn": Attention.CUDNN,
}
_RECOMPUTE = {"none": Recompute.NONE, "full": Recompute.LAYER, "selective": Recompute.SCORES}
_CLUSTERS = (
    ("a100 pcie", "a100-pcie"),
    ("a100 sxm 40gb", "a100-40gb"),
    ("a100", "a100"),
    ("gh200", "gh200"),
    ("h100", "h100"),
    ("h200", "h200"),
    ("v100", "v100-dgx2"),
    ("gb200", "gb200-nvl72"),
    ("b200", "b200"),
    ("b300", "b300"),
    ("mi250x", "mi250x"),
    ("mi300x", "mi300x"),
    ("mi325x", "mi325x"),
    ("mi355x", "mi355x"),
)
"""Devices by how their names begin in small letters, and the maker's node of each."""
_NETWORKS = {
    "4 x 100 Gb/s RoCE": "a100-efa",
    "8 x 200 Gb/s (A3 Mega": "h100-1600g",
    "800 Gb/s RDMA": "a100-800g",
    "4 x 200 Gb/s RDMA": "a100-800g",
    "400 Gb/s EFA": "a100-40gb-efa",
    "4 x 200 Gb/s (A3 High": "h100-tcpx",
}
"""Stated networks that have an entry of their own, by how they begin."""
_OVERLAPS = {
    "overlapped gradient reduce": True,
    "overlapped sync": True,
    "overlap grad/param sync true": True,
    "neither overlapped": False,
    "overlap_comm false": False,
    "no overlap flags": False,
}
"""Words of rows on whether gradients are reduced beside the backward."""
_PER_NODE = {("h200", 4): "h200-4"}


def rows_in(path: Path, *, without: frozenset[str] = frozenset()) -> Iterator[PublishedRun]:
    """The rows of a file of [Note: rows]; of `without`, the beginnings of names, none. Raises KeyError, ValueError for
    words that the note has no rule for."""
    for row in json.loads(path.read_text(encoding="utf-8")):
        if not row["name"].startswith(tuple(without)):
            yield _run(row)


_GATHERED_FP8 = ("weights gathered in fp8", "float8 all-gather on")


def _cluster(hardware: dict[str, Any]) -> str:
    name = next((own for begin, own in _CLUSTERS if hardware["gpu"].lower().startswith(begin)), None)
    if name is None:
        raise ValueError(f"{hardware['gpu']} has no entry in the hardware table")
    network = hardware.get("network_per_node") or ""
    name = next((own for begin, own in _NETWORKS.items() if network.startswith(begin)), name)
    return _PER_NODE.get((name, hardware["gpus_per_node"]), name)


def _numerics(row: dict[str, Any]) -> Numerics:
    said, layout = row["numerics"], row["layout"]
    attention = _ATTENTION[said["attention"]]
    recompute = _RECOMPUTE[said["recompute"]]
    if recompute is Recompute.SCORES and any("torchtitan" in words for words in (row["name"], *row["assumed"])):
        recompute = Recompute.EVERY_OTHER
    return Numerics(
        fmt=NumberFormat.FP8
        if any(word in said["weights_compute"] for word in ("fp8", "float8"))
        else NumberFormat.BF16,
        attention=attention,
        stack=_stack(row),
        recompute=recompute,
        has_dropout=attention is Attention.SCORES_IN_MEMORY and not row["model"]["gated_mlp"],
        sequence_parallel=layout["sequence_parallel"],
        is_autocast=_is_autocast(row),
    )


def _stack(row: dict[str, Any]) -> Stack:
    said = row["numerics"]
    if not said["compiled_fused"].startswith("eager"):
        return Stack.FUSED
    is_gpt = said["attention"] == "eager" and not row["model"]["gated_mlp"] and "bert" not in row["name"]
    return Stack.WRITTEN_OUT if is_gpt else Stack.EAGER


def _is_autocast(row: dict[str, Any]) -> bool:
    said = row["numerics"]
    if row["layout"]["sharding"] in ("zero3", "hsdp", "zero2") or said["compiled_fused"].startswith("fused"):
        return False
    words, is_whole = said["weights_compute"], row["layout"]["sharding"] == "none"
    return (words.startswith("fp32 weights") and "AMP" in words) or (words.startswith("fp32 master") and is_whole)


def _gradients(row: dict[str, Any]) -> dict[str, Any]:
    """How gradients are added, sent and sharded, and how parameters are gathered."""
    grads, sharding = row["numerics"]["grads_format"], row["layout"]["sharding"]
    is_wide = grads.startswith("fp32")
    words = row["numerics"]["weights_compute"]
    is_autocast = "AMP" in words and words.startswith("fp32 weights")
    is_deepspeed = sharding.startswith(("zero1", "zero2")) and any("DeepSpeed ZeRO" in said for said in row["assumed"])
    is_wide_on_wire = is_wide or "reduce_dtype float32" in grads
    found: dict[str, Any] = {
        "accumulate_bytes": 10.0 if is_wide else 6.0,
        "reduce_bytes": 4.0 if is_wide_on_wire else 2.0,
        "dp_overlap": next(
            (overlaps for words, overlaps in _OVERLAPS.items() if any(words in said for said in row["assumed"])),
            row["layout"]["pp"] == 1 and not is_deepspeed,
        ),
    }
    if states := next((said for said in row["assumed"] if "AdamW states" in said and "bf16" in said), None):
        is_fused = "fused AdamW" in states or not row["numerics"]["compiled_fused"].startswith("eager")
        found["optimizer_bytes"] = 14.0 if is_fused else 40.0
    if is_wide and "megatron" in row["name"]:
        found["accumulate_bytes"] = 8.0
    kind, _, ranks = sharding.partition("(")
    if kind == "none":
        found["shard_ranks"] = 1
    elif ranks:
        found["shard_ranks"] = int(ranks.rstrip(")"))
    if kind in ("zero3", "hsdp"):
        found["shards_parameters"] = True
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


def _run(row: dict[str, Any]) -> PublishedRun:
    model, layout, batch = row["model"], row["layout"], row["batch"]
    if (layout.get("context_parallel") or 1) > 1:
        raise ValueError(f"{row['name']}: a StepPlan has no context parallelism")
    if any(word in row["numerics"]["weights_compute"] for word in ("fp4", "tf32")):
        raise ValueError(f"{row['name']}: the table has no rates of {row['numerics']['weights_compute']}")
    pp, chunks, num_mb = layout["pp"], layout["virtual_stages"], batch["accumulation"]
    return PublishedRun(
        name=row["name"],
        cluster=_cluster(row["hardware"]),
        model=decoder_model(
            num_layers=model["layers"],
            hidden=model["hidden"],
            num_heads=model["heads"],
            num_kv_heads=model["kv_heads"],
            ffn_hidden=model["ffn_hidden"],
            vocab_size=model["vocab"],
            seq_len=model["seq_len"],
            is_gated=model["gated_mlp"],
            has_bias=not model["gated_mlp"],
            has_embed_norm=False,
            is_tied=model["tied"],
        ),
        plan=StepPlan(
            tp=layout["tp"],
            dp=layout["dp"],
            micro_batch=batch["micro_batch"],
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
