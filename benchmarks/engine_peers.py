"""Training steps of torch's own parts and of DeepSpeed, as one would write them today, for `engine_speed.py`."""

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from emberward.engine import MicroBatch
from emberward.families import ModelConfig
from emberward.recipe import ComputeType, Recipe, layers_of_stages

Step = Callable[[], object]


class Attention(nn.Module):
    """Causal attention with rotary positions; `num_heads` of this rank."""

    def __init__(self, config: ModelConfig, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_size = num_heads, config.hidden // config.num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(config.hidden, config.hidden, bias=False) for _ in range(4))
        turns = 1.0 / config.llama.rope_theta ** (torch.arange(0, self.head_size, 2) / self.head_size)
        angles = torch.arange(config.seq_len)[:, None] * torch.cat((turns, turns))
        self.turned = angles.cos(), angles.sin()

    def _rotate(self, x: Tensor) -> Tensor:
        cos, sin = (each.to(x.dtype) for each in self.turned)
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def forward(self, x: Tensor) -> Tensor:
        """Its contribution to the residual stream."""
        batch, length, _ = x.shape
        q, k, v = (
            each(x).view(batch, length, self.num_heads, self.head_size).transpose(1, 2)
            for each in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(self._rotate(q), self._rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, self.num_heads * self.head_size))


class FeedForward(nn.Module):
    """The gated feed-forward layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.ffn_hidden or 0
        self.gate, self.up = (nn.Linear(config.hidden, width, bias=False) for _ in range(2))
        self.down = nn.Linear(width, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Its contribution to the residual stream."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """A decoder layer."""

    def __init__(self, config: ModelConfig, num_heads: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(config.hidden), nn.RMSNorm(config.hidden)
        self.attention, self.mlp = Attention(config, num_heads), FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream after this layer."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    """A stage of the model, or all of it."""

    def __init__(self, recipe: Recipe, stage: int = 0) -> None:
        super().__init__()
        config, layers = recipe.model, layers_of_stages(recipe)
        heads = config.num_heads // recipe.layout.tp
        vocab = config.vocab_size or 0
        self.embed = nn.Embedding(vocab, config.hidden) if stage == 0 else None
        self.layers = nn.ModuleList(Layer(config, heads) for _ in layers[stage])
        is_last = stage == len(layers) - 1
        self.final_norm = nn.RMSNorm(config.hidden) if is_last else None
        self.head = nn.Linear(config.hidden, vocab, bias=False) if is_last else None
        for param in self.parameters():
            if param.dim() > 1:
                nn.init.normal_(param, std=config.init_std)

    def forward(self, x: Tensor) -> Tensor:
        """Token ids on the first stage, else the residual stream; gives logits on the last."""
        if self.embed is not None:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None or self.final_norm is None else self.head(self.final_norm(x))


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy, in float32."""
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Update:
    """Clipping and AdamW."""

    def __init__(self, recipe: Recipe, model: nn.Module, *, sums_over: dist.ProcessGroup | None = None) -> None:
        self._params = list(model.parameters())
        self._clip = recipe.optim.clip or 1.0
        decays = [param for param in self._params if param.dim() > 1]
        others = [param for param in self._params if param.dim() <= 1]
        groups = [{"params": decays}, {"params": others, "weight_decay": 0.0}]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=1e-3,
            betas=recipe.optim.betas,
            weight_decay=recipe.optim.weight_decay,
            fused=True,
        )
        self._sums_over = sums_over

    def __call__(self) -> None:
        """One update. All ranks must call; blocks."""
        if self._sums_over is None and not any(isinstance(param, DTensor) for param in self._params):
            nn.utils.clip_grad_norm_(self._params, self._clip, foreach=True)
        else:
            # Norms over parts of different meshes and over stages are summed by hand, as torchtitan does for pipelines.
            square = torch.zeros(())
            by_mesh: dict[object, list[Tensor]] = {}
            for param in self._params:
                assert param.grad is not None
                by_mesh.setdefault(getattr(param, "device_mesh", None), []).append(param.grad)
            for grads in by_mesh.values():
                norm = nn.utils.get_total_norm(grads, foreach=True)
                square += (norm.full_tensor() if isinstance(norm, DTensor) else norm).square()
            if self._sums_over is not None:
                dist.all_reduce(square, group=self._sums_over)
            for grads in by_mesh.values():
                scale = torch.clamp(self._clip / (square.sqrt() + 1e-6), max=1.0)
                torch._foreach_mul_([_local(grad) for grad in grads], scale)
        self._adamw.step()
        self._adamw.zero_grad()


def _local(tensor: Tensor) -> Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def ddp(recipe: Recipe, batches: list[MicroBatch]) -> Step:
    """Plain data parallelism."""
    model = DistributedDataParallel(Llama(recipe), gradient_as_bucket_view=True)
    update, is_bf16 = Update(recipe, model), recipe.precision.compute is ComputeType.BF16

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            logits = model(batches[0].inputs)
        loss_of(logits, batches[0].labels).backward()
        update()

    return step


def shard(recipe: Recipe, model: Llama, mesh: DeviceMesh, *, reshards: bool) -> None:
    """FSDP2, layer by layer."""
    is_bf16 = recipe.precision.compute is ComputeType.BF16
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if is_bf16 else None, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshards)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshards)


def fsdp2(recipe: Recipe, batches: list[MicroBatch], *, reshards: bool) -> Step:
    """Sharded data parallelism; `reshards`: parameters are freed after each use, as ZeRO-3 does."""
    model = Llama(recipe)
    shard(recipe, model, init_device_mesh("cpu", (dist.get_world_size(),)), reshards=reshards)
    update = Update(recipe, model)

    def step() -> None:
        loss_of(model(batches[0].inputs), batches[0].labels).backward()
        update()

    return step


def dtensor(recipe: Recipe, batches: list[MicroBatch]) -> Step:
    """Tensor parallelism with sequence parallelism; FSDP2 over the other ranks."""
    dp, tp = recipe.layout.dp or 1, recipe.layout.tp
    mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    model = Llama(recipe)
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    columns, rows = ColwiseParallel, partial(RowwiseParallel, output_layouts=Shard(1))
    for layer in model.layers:
        plan = {
            "attention_norm": SequenceParallel(use_local_output=True),
            "attention": whole,
            **{f"attention.{name}": columns() for name in "qkv"},
            "attention.out": rows(),
            "mlp_norm": SequenceParallel(use_local_output=True),
            "mlp": whole,
            "mlp.gate": columns(),
            "mlp.up": columns(),
            "mlp.down": rows(),
        }
        parallelize_module(layer, mesh["tp"], plan)
    outer = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "final_norm": SequenceParallel(use_local_output=True),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh["tp"], outer)
    if dp > 1 or recipe.precision.compute is ComputeType.BF16:
        shard(recipe, model, mesh["dp"], reshards=False)
    update = Update(recipe, model)

    def step() -> None:
        loss_of(model(batches[0].inputs), batches[0].labels).backward()
        update()

    return step


def schedule1f1b(recipe: Recipe, batches: list[MicroBatch]) -> Step:
    """Pipeline parallelism; FSDP2 over the other ranks."""
    dp, pp = recipe.layout.dp or 1, recipe.layout.pp
    mesh = init_device_mesh("cpu", (pp, dp), mesh_dim_names=("pp", "dp"))
    index = mesh["pp"].get_local_rank()
    model = Llama(recipe, index)
    if dp > 1 or recipe.precision.compute is ComputeType.BF16:
        shard(recipe, model, mesh["dp"], reshards=False)
    stage = PipelineStage(model, index, pp, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, len(batches), loss_fn=loss_of)
    update = Update(recipe, model, sums_over=mesh["pp"].get_group())
    tokens = torch.cat([batch.inputs for batch in batches])
    labels = torch.cat([batch.labels for batch in batches])

    def step() -> None:
        if index == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=labels, losses=[])
        update()

    return step


def deepspeed_zero(recipe: Recipe, batches: list[MicroBatch], *, stage: int) -> Step:
    """DeepSpeed's engine with its defaults of a ZeRO stage, on the CPU over gloo, with torch's fused AdamW."""
    world, rank = dist.get_world_size(), dist.get_rank()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), DS_ACCELERATOR="cpu")
    import deepspeed  # it takes a second, patches torch, and is not everywhere

    # Shared memory for inference, which it would compile now.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, dist_init_required=False, verbose=False)
    model = Llama(recipe)
    settings = {
        "train_micro_batch_size_per_gpu": recipe.batch.micro_batch,
        "steps_per_print": 10**9,
        "gradient_clipping": recipe.optim.clip,
        "bf16": {"enabled": recipe.precision.compute is ComputeType.BF16},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    decays = [param for param in model.parameters() if param.dim() > 1]
    others = [param for param in model.parameters() if param.dim() <= 1]
    adamw = torch.optim.AdamW(
        [{"params": decays}, {"params": others, "weight_decay": 0.0}],
        lr=1e-3,
        betas=recipe.optim.betas,
        weight_decay=recipe.optim.weight_decay,
        fused=True,
    )
    engine, *_ = deepspeed.initialize(model=model, optimizer=adamw, config=settings)

    def step() -> None:
        loss = loss_of(engine(batches[0].inputs), batches[0].labels)
        engine.backward(loss)
        engine.step()

    return step


def is_installed(peer: str) -> bool:
    """Whether what a peer needs is there."""
    return not peer.startswith("deepspeed") or find_spec("deepspeed") is not None


PEERS: dict[str, Callable[[Recipe, list[MicroBatch]], Step]] = {
    "ddp": ddp,
    "fsdp2": partial(fsdp2, reshards=True),
    "fsdp2_kept": partial(fsdp2, reshards=False),
    "dtensor": dtensor,
    "schedule1f1b": schedule1f1b,
    **{f"deepspeed_zero{stage}": partial(deepspeed_zero, stage=stage) for stage in (1, 2, 3)},
}
