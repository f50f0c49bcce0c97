"""The random states of this process, as tensors of a save: one for each source and role."""

from collections.abc import Sequence

import torch

from emberward.checkpoint import Shard
from emberward.engine import World
from emberward.layout import Axis

PREFIX = "rng/"


def role_of(world: World) -> str:
    """Where the rank sits, in words that do not depend on its number."""
    return f"pp{world.at(Axis.PP)}.dp{world.dp_rank}.tp{world.at(Axis.TP)}"


def random_shards(world: World) -> list[Shard]:
    """Copies of this rank's random states, uint8, under ``rng/SOURCE/ROLE``. Does not communicate."""
    states = {"cpu": torch.get_rng_state()}
    if world.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(world.device)
    return [
        Shard(
            name=f"{PREFIX}{source}/{role_of(world)}",
            global_shape=tuple(state.shape),
            box=((0, state.numel()),),
            tensor=state,
        )
        for source, state in states.items()
    ]


def set_random_states(shards: Sequence[Shard], world: World) -> None:
    """Takes the states that `random_shards` gave, after their tensors were filled from a save."""
    for shard in shards:
        source = shard.name.removeprefix(PREFIX).split("/")[0]
        if source == "cpu":
            torch.set_rng_state(shard.tensor)
        else:
            torch.cuda.set_rng_state(shard.tensor, world.device)
