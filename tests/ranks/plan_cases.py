"""Cases that hold the plan of a step against the engine: bytes of local tensors, collectives of a step."""

from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from emberward.engine import Engine, build_world
from emberward.events import Send
from emberward.recipe import ends_of, mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe


class _Collectives(TorchDispatchMode):
    """Counts what reaches torch's process groups: (operation, size of the group) -> [calls, payload bytes]."""

    WHOLE: ClassVar = {"_allgather_base_": 0, "_reduce_scatter_base_": 1, "alltoall_base_": 0, "allreduce_": 0}

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, int], list[int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name.startswith("c10d::"):
            op = name.removeprefix("c10d::")
            if op in self.WHOLE:
                whole = args[self.WHOLE[op]]
                tensors = whole if isinstance(whole, (list, tuple)) else [whole]
                group = next(arg for arg in args if isinstance(arg, torch.ScriptObject))
                size = torch.distributed.ProcessGroup.unbox(group).size()
                row = self.found.setdefault((op, size), [0, 0])
                row[0] += 1
                row[1] += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return func(*args, **(kwargs or {}))


def engine_bytes(rank: int, world_size: int, **layout: Any) -> dict[str, Any]:
    """Bytes of this rank's weights, gradients and moments, and the payloads of its collectives in the second step."""
    recipe = small_recipe(**layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60, ends=ends_of(recipe))
    engine = Engine(recipe, world)
    out: dict[str, Any] = {}

    def at_the_end() -> None:
        out["gradient_bytes"] = sum(part.local_grad.numel() * part.local_grad.element_size() for part in engine.parts)

    def step(index: int) -> None:
        engine.train_step(micro_batches_of(index, recipe, world.dp_rank), lr=LR, step=index, before_update=at_the_end)

    step(0)
    with _Collectives() as collectives:
        step(1)
    out["collectives"] = collectives.found
    out["weight_bytes"] = sum(part.local.numel() * part.local.element_size() for part in engine.parts)
    states = engine.optimizer._state
    out["optimizer_bytes"] = sum(t.numel() * t.element_size() for state in states for t in state.values())
    sends = [event.body for event in engine.train_program(recipe.batch.accumulation) if isinstance(event.body, Send)]
    width = torch.finfo(engine._dtype).bits // 8
    out["sends"] = (len(sends), sum(send.numel * width for send in sends))
    return out
