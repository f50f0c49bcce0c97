"""Groups have one identity in the plan, in a dry run and on real ranks: that of the plan's table."""

import pytest
import torch
import torch.distributed as dist

from emberward.engine import build_world
from emberward.events import Group, GroupCreate
from emberward.layout import Axis
from emberward.plan import Pipe, group_sets
from emberward.recipe import mesh_of
from emberward.sources import Tape, Transport
from emberward.sources.fake_world import fake_world
from emberward.sources.recorder import Recorder
from ranks.cases import small_recipe

LAYOUTS = {
    "the pipeline is the world": {"pp": 2},
    "the shards are the world": {"dp": 2},
    "a middle stage has its end alone": {"pp": 3},
    "all axes": {"dp": 2, "tp": 2, "pp": 2},
}


def made_groups(rank, mesh):
    """The groups that a recorder counted while the engine made its world, and those that the engine goes by."""
    tape = Tape(rank, find_site=lambda: None, transport=Transport.GLOO)
    recorder = Recorder(tape)
    with recorder.recording():
        world = build_world(mesh, device=torch.device("cpu"), timeout_s=60)
        seen = {label: recorder.group_of(channel.handle) for label, channel in world.channels.items()}
    bodies = [event.body for event in tape.events() if isinstance(event.body, GroupCreate)]
    created = [(body.group, body.members) for body in bodies]
    return created, seen, {label: channel.group for label, channel in world.channels.items()}


def live_and_dry(rank, world_size, *, layout):
    mesh = mesh_of(small_recipe(**layout).layout)
    live = made_groups(rank, mesh)
    dist.barrier()  # a peer may still connect its last group
    dist.destroy_process_group()
    with fake_world(rank, mesh.size):
        return live, made_groups(rank, mesh)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_plan_dry_run_and_ranks_count_groups_alike(pool, layout):
    mesh = mesh_of(small_recipe(**layout).layout)
    _, *planned = group_sets(mesh)
    for rank, (live, dry) in enumerate(pool.run(live_and_dry, mesh.size, layout=layout)):
        assert live == dry
        created, seen, known = live
        assert created == [(group, group.ranks) for group in (made.of(rank) for made in planned)]
        assert seen == known


def test_a_pipeline_that_is_the_world_has_its_channels_after_the_world_and_the_axis():
    mesh = mesh_of(small_recipe(pp=2).layout)
    ranks = mesh.group(0, Axis.PP)
    assert Pipe.over(ranks, mesh=mesh).down == Group(ranks=(0, 1), index=2)
    assert Pipe.over(ranks, mesh=mesh).up == Group(ranks=(0, 1), index=3)
