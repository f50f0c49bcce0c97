"""Dry runs of one rank with and without folding, and changes of the engine that make a fold wrong."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from emberward.engine import Engine, Executor
from emberward.events import Collective, Event
from emberward.families.layers import RowLinear
from emberward.plan import Work, solve_batch
from emberward.rank._dry import dry_run
from emberward.rank._rehearsal import Script, script_of
from emberward.recipe import BatchConfig, Recipe
from emberward.report._first_steps import _training_steps
from emberward.sources import Transport, first_difference
from ranks.dry_cases import whole_recipe
from ranks.swin_cases import swin_recipe


def script(*, accumulation: int, family: str, **layout: Any) -> Script:
    """A rehearsal of `accumulation` micro-batches of one sample a dp rank, with a long and a short evaluation set."""
    recipe = whole_recipe(**layout)
    if family == "swin":
        recipe = _as_swin(recipe, **layout)
    elif family != "bloom":
        recipe = replace(recipe, model=replace(recipe.model, family=family))
    size = accumulation * (recipe.layout.dp or 1)
    batch = BatchConfig(global_batch=size, micro_batch=1, accumulation=accumulation)
    recipe = replace(recipe, batch=batch, train_samples=10 * size)
    return script_of(recipe, solve_batch(global_batch=size, micro_batch=1, dp=recipe.layout.dp), {"news": 64, "few": 3})


def _as_swin(recipe: Recipe, **layout: Any) -> Recipe:
    swin = swin_recipe("small", micro_batch=1, **layout)
    return replace(recipe, model=swin.model, layout=swin.layout, sample_tokens=0)


@contextlib.contextmanager
def counting(counts: list[int]) -> Iterator[None]:
    """Appends the number of events of each program that is executed."""
    run = Executor.run

    def counted(executor: Executor, program: Any, *args: Any, **named: Any) -> None:
        counts.append(len(program))
        run(executor, program, *args, **named)

    with patch.object(Executor, "run", counted):
        yield


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """A call that some micro-batches make and others do not, or a layer at every second time."""
    forward, before = RowLinear.forward, Engine._before
    times = [0]

    def backward_of_some(engine: Engine, action: Any, *others: Any) -> None:
        if action.mb % 3 == 2 and action.work is Work.BACKWARD:
            dist.all_reduce(torch.zeros(3), group=engine.world.channels["dp_shard"].handle)
        before(engine, action, *others)

    def forward_by_turns(layer: RowLinear, x: torch.Tensor) -> torch.Tensor:
        times[0] += 1
        if times[0] % 2:
            dist.all_reduce(torch.zeros(3))
        return forward(layer, x)

    with contextlib.ExitStack() as stack:
        if name == "micro-batch":
            stack.enter_context(patch.object(Engine, "_before", backward_of_some))
        if name == "layer":
            stack.enter_context(patch.object(RowLinear, "forward", forward_by_turns))
        yield


def folded_and_whole(
    rank: int, world_size: int, *, of: int, transport: str = "nccl", plant: str | None = None, **layout: Any
) -> dict[str, Any]:
    """What differs between the dry runs of rank `of`, folded and whole, and how many events each executed."""
    del rank, world_size
    played, numbers = script(**layout), ([], [])
    dist.destroy_process_group()
    done = []
    for is_folded, counts in zip((True, False), numbers, strict=True):
        with counting(counts), planted(plant):
            done.append(dry_run(played, of, transport=Transport(transport), is_folded=is_folded))
    folded, whole = done
    difference = first_difference(whole.events, folded.events)
    return {
        "difference": None if difference is None else str(difference),
        "is_one_program": folded.program == whole.program,
        "executed": [sum(counts) for counts in numbers],
        "num_events": len(whole.events),
    }


def gathers_of_steps(rank: int, world_size: int, *, of: int, **layout: Any) -> list[int]:
    """Calls over the sharded axis in each training step of the dry run of rank `of`; evaluations stand between them."""
    del rank, world_size
    played = script(accumulation=4, family="bloom", **layout)
    dist.destroy_process_group()
    events = dry_run(played, of, transport=Transport.NCCL).events
    return [sum(_is_over_dp(event) for event in step) for step in _training_steps(events)]


def _is_over_dp(event: Event) -> bool:
    return isinstance(event.body, Collective) and event.body.group is not None and event.body.group.label == "dp_shard"
