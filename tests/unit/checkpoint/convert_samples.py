"""Checkpoints of other programs: real ones of DeepSpeed, and one with tensor parallelism that is made here."""

import contextlib
import shutil
import sys
import tarfile
import types
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

from emberward.checkpoint import open_source
from emberward.checkpoint._foreign._merge import Reading
from emberward.checkpoint._foreign._read import Reader

TAR = Path(__file__).parents[2] / "data" / "deepspeed.tar.xz"
PLAIN = Reading()


def unpacked(folder: Path) -> Path:
    """The real checkpoints of DeepSpeed 0.19.8 (see tests/data/README.md), unpacked into the folder."""
    with tarfile.open(TAR) as tar:
        # Python before 3.11.4 has no filters; the archive is our own.
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder


def values(path: Path, reading: Reading = PLAIN) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint of any form, read whole."""
    source = open_source(path, reading)
    names = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I64": torch.int64, "U8": torch.uint8}
    read = {}
    with Reader() as reader:
        for name, stored in source.tensors.items():
            bits = reader.array(stored)
            raw = torch.from_numpy(bits.view(f"i{bits.itemsize}").copy())
            read[name] = raw.view(names[stored.dtype.value])
    return read


def expected_of(folder: Path) -> dict[str, torch.Tensor]:
    """What DeepSpeed itself said that the checkpoint holds, over all pipeline stages."""
    said = {}
    for path in sorted(folder.glob("expected_*.pt")):
        said.update(torch.load(path, weights_only=True))
    return said


@contextlib.contextmanager
def deepspeed_classes():
    """Classes of DeepSpeed's names for the length of a torch.save."""
    made = {
        "deepspeed.utils.tensor_fragment": "fragment_address",
        "deepspeed.runtime.zero.config": "ZeroStageEnum",
        "deepspeed.runtime.fp16.loss_scaler": "LossScaler",
    }
    classes, parents = {}, {".".join(name.split(".")[:n]) for name in made for n in range(1, name.count(".") + 1)}
    for parent in parents:
        sys.modules[parent] = types.ModuleType(parent)
    for module, name in made.items():
        holder = types.ModuleType(module)
        body = {"__module__": module, "__init__": _keep_args, "__reduce__": _as_it_was_made}
        classes[name] = type(name, (), body)
        setattr(holder, name, classes[name])
        sys.modules[module] = holder
    try:
        yield classes
    finally:
        for module in [*made, *parents]:
            del sys.modules[module]


def _keep_args(self, *args):
    self.__dict__["made_of"] = args


def _as_it_was_made(self):
    state = {key: value for key, value in self.__dict__.items() if key != "made_of"}
    return (type(self), self.__dict__.get("made_of", ()), state or None)


SHAPES = {
    "1.embed.weight": ((12, 4), 0),
    "2.norm.weight": ((4,), None),
    "2.norm.bias": ((4,), None),
    "2.qkv.weight": ((12, 4), 0),
    "2.out.weight": ((4, 4), 1),
    "2.up.weight": ((16, 4), 0),
}
PAGE = Path(__file__).parents[3] / "docs" / "convert.md"
FAMILY = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
"""The example of the page, so that it is true."""
KINDS = ("fp32", "exp_avg", "exp_avg_sq")


def whole_tensors() -> dict[tuple[str, str], torch.Tensor]:
    """The tensors of the tensor-parallel checkpoint, before they are split."""
    generator = torch.Generator().manual_seed(5)
    return {
        (kind, name): torch.randn(shape, generator=generator) for kind in KINDS for name, (shape, _) in SHAPES.items()
    }


def slice_of(name: str, tensor: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """What one of `size` tensor-parallel ranks holds: fused tensors block by block."""
    dim, blocks = SHAPES[name][1], {"2.qkv.weight": 3, "2.up.weight": 2}.get(name, 1)
    if dim is None:
        return tensor.clone()
    return torch.cat([block.chunk(size, dim)[rank] for block in tensor.chunk(blocks, dim)], dim).contiguous()


def write_tensor_parallel(
    folder: Path, *, tp: int = 2, dp: int = 2, drift: dict[str, dict[int, float]] | None = None
) -> Path:
    """A ZeRO-1 checkpoint in bf16 of `tp` tensor-parallel ranks, as DeepSpeed 0.19 lays it out.

    `drift` adds a number to a replicated tensor's fp32 weight and moments on some ranks: {"2.norm.weight": {1: 0.5}}.
    """
    folder.mkdir(parents=True)
    wholes = whole_tensors()
    with deepspeed_classes() as classes:
        for rank in range(tp):
            mine = {key: slice_of(key[1], tensor, rank, tp) for key, tensor in wholes.items()}
            for (kind, name), tensor in mine.items():
                mine[kind, name] = tensor + (drift or {}).get(name, {}).get(rank, 0.0)
            module = {name: mine["fp32", name].to(torch.bfloat16) for name in SHAPES}
            state = {
                "module": module,
                "buffer_names": [],
                "param_shapes": [OrderedDict((name, module[name].shape) for name in SHAPES)],
                "global_steps": 17235,
                "global_samples": 100,
                "mp_world_size": tp,
                "dp_world_size": dp,
                "checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": tp},
                "rng": torch.arange(5, dtype=torch.uint8),
            }
            torch.save(state, folder / f"mp_rank_{rank:02d}_model_states.pt")
            _write_optimizer(folder, classes, mine, rank, dp)
    return folder


def _write_optimizer(folder: Path, classes: dict, mine: dict, rank: int, dp: int) -> None:
    flats = {kind: torch.cat([mine[kind, name].reshape(-1) for name in SHAPES]) for kind in KINDS}
    numel = len(flats["fp32"])
    share = -(-numel // dp)
    for data_rank in range(dp):
        low, high = data_rank * share, min((data_rank + 1) * share, numel)
        mappings, at = OrderedDict(), 0
        for name in SHAPES:
            length = mine["fp32", name].numel()
            begin, end = max(at, low), min(at + length, high)
            if begin < end:
                address = classes["fragment_address"]()
                address.numel, address.start = end - begin, begin - low
                mappings[name] = address
            at += length
        own = {
            kind: torch.nn.functional.pad(flat[low:high], (0, share - (high - low))).clone()
            for kind, flat in flats.items()
        }
        optimizer = {
            "base_optimizer_state": {
                "state": {0: {"step": torch.tensor(9.0), "exp_avg": own["exp_avg"], "exp_avg_sq": own["exp_avg_sq"]}},
                "param_groups": [{"lr": 1e-4, "params": [0]}],
            },
            "single_partition_of_fp32_groups": [own["fp32"]],
            "zero_stage": 1,
            "ds_version": "0.19.8",
            "param_slice_mappings": [mappings],
            "clip_grad": 1.0,
        }
        path = folder / f"bf16_zero_pp_rank_{data_rank}_mp_rank_{rank:02d}_optim_states.pt"
        torch.save({"optimizer_state_dict": optimizer}, path)


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    """Names whose tensors are not equal in the two, bit for bit, or are in one alone."""
    return sorted(
        name
        for name in {*a, *b}
        if name not in a or name not in b or a[name].shape != b[name].shape or not _same_bits(a[name], b[name])
    )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and np.array_equal(
        a.reshape(-1).contiguous().view(torch.uint8).numpy(), b.reshape(-1).contiguous().view(torch.uint8).numpy()
    )


def add_frozen_and_buffer(source, target):
    """Copies a ZeRO 3 checkpoint of two ranks and adds what is in no optimizer: a frozen parameter and a buffer."""
    shutil.copytree(source, target)
    for rank in range(2):
        path = target / "step3" / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"
        tree = torch.load(path, weights_only=True)
        tree["frozen_param_shapes"] = {"frozen.weight": torch.Size([3, 3])}
        tree["frozen_param_fragments"] = {"frozen.weight": torch.arange(5, dtype=torch.bfloat16) + 5 * rank}
        tree["module"] |= {"frozen.weight": torch.empty(0, dtype=torch.bfloat16), "counter": torch.tensor([1, 2])}
        tree["buffer_names"] = ["counter"]
        torch.save(tree, path)
