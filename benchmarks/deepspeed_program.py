"""A small program of real DeepSpeed, for `tools/campaign_deepspeed.py` and `reshape.py`: makes, loads, trains on.

Runs under torchrun in an environment of its own that has DeepSpeed; Emberward is not imported here.

    deepspeed_program.py make  STAGE FOLDER [PP]       trains 3 steps and saves
    deepspeed_program.py lay   FOLDER                  writes random numbers as ZeRO 1 would (no ranks)
    deepspeed_program.py load  STAGE FOLDER TAG OUT    loads a universal checkpoint, writes what it holds, trains 4
    deepspeed_program.py own   STAGE FOLDER TAG OUT PP the same with files of the stage's own form

With PROGRAM_EXTRAS=1 the model computes in bf16 and has what no optimizer holds: frozen parameters, buffers and a
tied head. `make` writes what the engine holds to expected_RANK.pt.
"""

import json
import os
import sys
from collections import OrderedDict
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from deepspeed.utils.tensor_fragment import fragment_address
from torch import Tensor, nn

WIDTH = int(os.environ.get("PROGRAM_WIDTH", "64"))
LAYERS = int(os.environ.get("PROGRAM_LAYERS", "4"))
VOCAB = int(os.environ.get("PROGRAM_VOCAB", "512"))
LENGTH = 32
EXTRAS = os.environ.get("PROGRAM_EXTRAS") == "1"
"""Whether the model has frozen parameters, buffers and a tied head, and computes in bf16."""


class Embed(nn.Module):
    """Tokens and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        if EXTRAS:
            self.pos.weight.requires_grad_(False)
            self.register_buffer("seen", torch.tensor([3, 1, 4]))
            self.register_buffer("not_saved", torch.ones(2), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tok(tokens) + self.pos(torch.arange(tokens.shape[1]))


class Block(nn.Module):
    """A decoder block with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        if EXTRAS:  # 5 elements: no number of ranks but 1 and 5 divides them
            self.gate = nn.Parameter(torch.rand(5), requires_grad=False)
            self.fc1.weight.requires_grad_(False)
            self.register_buffer("average", torch.rand(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        x = x + self.proj(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))


class Head(nn.Module):
    """Norm and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.lnf, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lnf(x))


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))


def batch_of(step: int, size: int) -> tuple[Tensor, Tensor]:
    """The same batch on every rank and for every engine, so that losses can be compared."""
    generator = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(0, VOCAB, (size, LENGTH), generator=generator)
    return tokens, tokens.roll(-1, dims=1)


def logits_of(embed: Embed, x: Tensor) -> Tensor:
    """The tied head of a pipeline."""
    return nn.functional.linear(x, embed.tok.weight)


def layers(*, is_pipeline: bool = False) -> list[LayerSpec]:
    blocks = [LayerSpec(Block) for _ in range(LAYERS)]
    if EXTRAS and is_pipeline:
        tie = {"tied_weight_attr": "tok.weight"}
        head = TiedLayerSpec("embed", Embed, forward_fn=logits_of, **tie)
        return [TiedLayerSpec("embed", Embed, **tie), *blocks, head]
    return [LayerSpec(Embed), *blocks, LayerSpec(Head)]


def config_of(stage: int, *, is_universal: bool) -> dict:
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 1,
        "steps_per_print": 10**9,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": stage},
        "bf16": {"enabled": EXTRAS},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
        **({"checkpoint": {"load_universal": True}} if is_universal else {}),
    }


def engine_of(stage: int, *, pp: int, is_universal: bool) -> object:
    torch.manual_seed(7)
    if pp > 1:
        specs = layers(is_pipeline=True)
        model = PipelineModule(layers=specs, num_stages=pp, loss_fn=loss_of, partition_method="uniform")
    else:
        model = nn.Sequential(*[spec.build() for spec in layers()])
        if EXTRAS:
            model[-1].head.weight = model[0].tok.weight
    return deepspeed.initialize(model=model, config=config_of(stage, is_universal=is_universal))[0]


def train(engine: object, steps: range, *, pp: int) -> list[float]:
    losses = []
    for step in steps:
        if pp > 1:
            losses.append(float(engine.train_batch(iter([batch_of(step, 2)]))))
            continue
        tokens, labels = batch_of(step, 2)
        loss = loss_of(engine(tokens), labels)
        engine.backward(loss)
        engine.step()
        losses.append(float(loss))
    return losses


def state_of(engine: object) -> dict[str, Tensor]:
    """Every weight, moment and buffer in full; all ranks must call."""
    buffers = {name: buffer for name, buffer in engine.module.named_buffers() if "not_saved" not in name}
    state = {f"model/{name}": buffer.clone() for name, buffer in buffers.items()}
    for name, param in engine.module.named_parameters():
        if not param.requires_grad:
            with deepspeed.zero.GatheredParameters([param]):
                state[f"model/{name}"] = param.detach().clone()
            continue
        state[f"model/{name}"] = safe_get_full_fp32_param(param).clone()
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"optim/{moment}/{name}"] = safe_get_full_optimizer_state(param, moment).clone()
    return state


def lay_out(folder: Path) -> None:
    """Random numbers as ZeRO 1 lays them out on 2 data-parallel ranks: a large checkpoint without its training."""
    model = nn.Sequential(*[spec.build() for spec in layers()])
    shapes = OrderedDict((name, param.shape) for name, param in model.named_parameters())
    total = sum(shape.numel() for shape in shapes.values())
    share = -(-total // 2)
    folder.mkdir(parents=True)
    (folder.parent / "latest").write_text(folder.name)
    head = {"module": {}, "buffer_names": [], "param_shapes": [shapes], "global_steps": 3, "mp_world_size": 1}
    torch.save({**head, "dp_world_size": 2, "ds_version": "0.19.8"}, folder / "mp_rank_00_model_states.pt")
    for rank in range(2):
        low, high, at, mapping = rank * share, min((rank + 1) * share, total), 0, OrderedDict()
        for name, shape in shapes.items():
            begin, end = max(at, low), min(at + shape.numel(), high)
            if begin < end:
                mapping[name] = fragment_address(numel=end - begin, start=begin - low)
            at += shape.numel()
        flats = [torch.randn(high - low) for _ in range(3)]
        state = {0: {"step": torch.tensor(3.0), "exp_avg": flats[0], "exp_avg_sq": flats[1]}}
        optimizer = {
            "base_optimizer_state": {"state": state, "param_groups": [{"lr": 1e-3, "params": [0]}]},
            "single_partition_of_fp32_groups": [flats[2]],
            "zero_stage": ZeroStageEnum(1),
            "ds_version": "0.19.8",
            "partition_count": [2],
            "group_paddings": [0],
            "param_slice_mappings": [mapping],
        }
        torch.save({"optimizer_state_dict": optimizer}, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def main() -> None:
    if sys.argv[1] == "lay":
        lay_out(Path(sys.argv[2]) / "step3")
        return
    deepspeed.init_distributed("gloo")
    verb, stage, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if verb == "make":
        pp = int(sys.argv[4]) if len(sys.argv) > 4 else 1
        engine = engine_of(stage, pp=pp, is_universal=False)
        train(engine, range(3), pp=pp)
        engine.save_checkpoint(folder, tag="step3", client_state={"data_cursor": 123})
        torch.save(state_of(engine), Path(folder) / f"expected_{dist.get_rank()}.pt")
        straight = train(engine, range(3, 7), pp=pp)
        if dist.get_rank() == 0:
            (Path(folder) / "straight.json").write_text(json.dumps(straight))
        return
    tag, out, pp = sys.argv[4], Path(sys.argv[5]), int(sys.argv[6]) if verb == "own" else 1
    engine = engine_of(stage, pp=pp, is_universal=verb == "load")
    _, client = engine.load_checkpoint(folder, tag=tag)
    if verb == "own" and stage < 3:
        engine.optimizer._lazy_init_hp_params_optimizer_state()  # else done in the first step; `state_of` needs it
    state = state_of(engine)
    torch.save(state, out.with_suffix(f".{dist.get_rank()}.pt"))
    losses = train(engine, range(3, 7), pp=pp)
    if dist.get_rank() == 0:
        said = {"losses": losses, "global_steps": engine.global_steps, "data_cursor": client.get("data_cursor")}
        out.with_suffix(".json").write_text(json.dumps(said))


main()
if dist.is_initialized():
    dist.barrier()
os._exit(0)  # what DeepSpeed leaves running may otherwise keep the process for minutes (0.19.8)
