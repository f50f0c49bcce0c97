"""Judging by symmetry gives the verdict of judging every rank."""

import random

import pytest
from unit.match.scenes import HOST, reduce

from emberward.events import Collective, CollectiveOp, Group, GroupCreate, Observer, Recv, Send, Site, TraceBuilder
from emberward.layout import Axis, Mesh
from emberward.match import Outcome, RoleBuilder, RoleTrace, check, check_roles, explain
from emberward.testing import PlantedFault, expanded, mesh_roles, plant, random_program

MESHES = [(2, 2, 2), (4, 2, 2), (2, 3, 3), (2, 1, 4), (3, 4, 1), (1, 2, 3)]


def facts(verdict):
    findings = [
        (f.code, f.cause, f.culprit_ranks, f.waiting_ranks, f.site, f.message)
        for f in verdict.findings
        if f.code != "M104"
    ]
    codes = [f.code for f in verdict.findings]
    return verdict.outcome, verdict.finishes, codes, findings, len(verdict.witness), verdict.num_ranks


CASES = [(size, fault) for size in MESHES for fault in (None, *PlantedFault) if size[2] > 1 or fault is None]


@pytest.mark.parametrize(("size", "fault"), CASES)
def test_symmetry_and_every_rank_agree(size, fault):
    pp, dp, tp = size
    roles = mesh_roles(pp=pp, dp=dp, tp=tp, num_mb=2 * pp)
    if fault is not None:
        roles = plant(roles, roles.mesh.size - 1, fault, at=3)
    by_symmetry, by_rank = check_roles(roles), check(expanded(roles))
    assert facts(by_symmetry) == facts(by_rank), explain(by_symmetry) + explain(by_rank)
    stopped = {(rank, ref) for rank, ref in by_rank.frontier}
    assert set(by_symmetry.frontier) <= stopped
    if fault is None:
        assert (by_symmetry.outcome is Outcome.SAFE and by_symmetry.num_events < by_rank.num_events) or dp * tp == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_of_one_rank_are_judged_alike(seed):
    rng = random.Random(seed)
    roles = mesh_roles(pp=2, dp=2, tp=3, num_mb=4)
    rank = rng.randrange(roles.mesh.size)
    events = list(roles.program_of(rank))
    for _ in range(rng.randint(1, 3)):
        i, j = (rng.randrange(len(events)) for _ in range(2))
        if events[i].lane == events[j].lane:
            from dataclasses import replace

            a, b = events[i], events[j]
            events[i], events[j] = replace(a, body=b.body, site=b.site), replace(b, body=a.body, site=a.site)
    roles = roles.with_program(rank, events)
    by_symmetry, by_rank = check_roles(roles, with_cure=False), check(expanded(roles), with_cure=False)
    assert by_symmetry.outcome is by_rank.outcome
    assert by_symmetry.finishes is by_rank.finishes
    assert set(by_symmetry.frontier) <= set(by_rank.frontier)
    assert [f.code for f in by_symmetry.findings] == [f.code for f in by_rank.findings]


def test_a_fault_in_a_rank_that_represents_nobody_is_named_among_512():
    roles = mesh_roles(pp=4, dp=16, tp=8, num_mb=8)
    verdict = check_roles(plant(roles, 301, PlantedFault.SKIPPED_CALL, at=5))
    assert [(f.code, f.culprit_ranks) for f in verdict.findings] == [("M103", (301,))]
    assert verdict.cure is not None and "rank 301" in verdict.cure.text
    swapped = check_roles(plant(roles, 301, PlantedFault.SWAPPED_CALLS))
    assert [f.code for f in swapped.findings] == ["M104"]
    assert len({line.rank for line in swapped.witness}) == 2 and 301 in {line.rank for line in swapped.witness}
    assert len(swapped.witness) == 2


def test_classes_split_by_how_they_relate_to_the_odd_rank():
    roles = mesh_roles(pp=4, dp=16, tp=8, num_mb=8)
    assert any("4 roles, 4 classes, 512 ranks" in text for text in check_roles(roles).assumptions)
    odd = plant(roles, 301, PlantedFault.DIFFERENT_SIZE)
    assert any("5 roles, 16 classes, 512 ranks" in text for text in check_roles(odd).assumptions)


def ring_roles(num_ranks: int, *, is_sending_first: bool) -> RoleTrace:
    mesh = Mesh(axes=((Axis.CP, num_ranks),))
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    send, recv = Send(peer=1, tensor="kv", numel=2, dtype="int8"), Recv(peer=num_ranks - 1, tensor="kv")
    for body in (send, recv) if is_sending_first else (recv, send):
        builder.add(0, HOST, body, site=Site(file="ring.py", line=3))
    return RoleTrace(
        mesh=mesh,
        programs={0: builder.build().events[0]},
        representative_of=(0,) * num_ranks,
        observer=Observer.DRY_RUN,
    )


def test_one_class_of_a_ring_lifts_to_a_cycle_of_all_its_ranks():
    verdict = check_roles(ring_roles(6, is_sending_first=True))
    assert verdict.outcome is Outcome.NEEDS_BUFFER and verdict.least_buffer_bytes == 2
    assert [line.rank for line in verdict.witness] == [0, 1, 2, 3, 4, 5]
    assert check_roles(ring_roles(6, is_sending_first=False)).outcome is Outcome.STUCK


def test_roles_are_found_from_one_rank_after_another():
    given = plant(mesh_roles(pp=2, dp=3, tp=2, num_mb=4), 9, PlantedFault.SKIPPED_CALL)
    builder = RoleBuilder(given.mesh, given.observer)
    for rank in given.mesh.ranks:
        builder.add(rank, given.program_of(rank))
    found = builder.build()
    assert sorted(found.programs) == [0, 6, 9]
    assert facts(check_roles(found)) == facts(check_roles(given))
    assert expanded(found).events == expanded(given).events


def test_a_group_that_is_no_product_stands_in_a_role_of_one_rank():
    mesh = Mesh(axes=((Axis.DP_SHARD, 2), (Axis.TP, 2)))
    diagonal = Group(ranks=(0, 3))
    builder = RoleBuilder(mesh, Observer.DRY_RUN)
    for rank in mesh.ranks:
        trace = TraceBuilder(4, Observer.DRY_RUN)
        trace.observe(rank)
        trace.add(rank, HOST, GroupCreate(group=diagonal))
        if rank in diagonal.ranks:
            trace.add(rank, HOST, reduce(diagonal))
        builder.add(rank, trace.build().events[rank])
    roles = builder.build()
    assert sorted(roles.programs) == [0, 1, 3]
    assert check_roles(roles).is_safe


def test_a_root_is_read_as_a_place():
    mesh = Mesh(axes=((Axis.DP_SHARD, 2), (Axis.TP, 2)))
    builder = RoleBuilder(mesh, Observer.DRY_RUN)
    for rank in mesh.ranks:
        trace = TraceBuilder(4, Observer.DRY_RUN)
        tp = Group(ranks=mesh.group(rank, Axis.TP))
        body = Collective(op=CollectiveOp.BROADCAST, group=tp, dtype="float32", numel=1, root=tp.ranks[0])
        trace.add(rank, HOST, body)
        builder.add(rank, trace.build().events[rank])
    verdict = check_roles(builder.build())
    assert verdict.is_safe, explain(verdict)


def test_roles_refuse_what_they_cannot_hold():
    roles = ring_roles(3, is_sending_first=True)
    with pytest.raises(ValueError, match="one representative for each of the 3 ranks"):
        RoleTrace(mesh=roles.mesh, programs=roles.programs, representative_of=(0,), observer=roles.observer)
    with pytest.raises(ValueError, match=r"representatives without a program: \[1\]"):
        RoleTrace(mesh=roles.mesh, programs=roles.programs, representative_of=(0, 1, 0), observer=roles.observer)
    builder = RoleBuilder(roles.mesh, roles.observer)
    builder.add(0, roles.programs[0])
    with pytest.raises(ValueError, match="ranks without events"):
        builder.build()


@pytest.mark.parametrize("rank", [0, 6, 7])
def test_a_fault_in_a_representative_stays_its_own(rank):
    roles = plant(mesh_roles(pp=2, dp=2, tp=3, num_mb=4), rank, PlantedFault.SKIPPED_CALL, at=2)
    verdict = check_roles(roles)
    assert [(f.code, f.culprit_ranks) for f in verdict.findings] == [("M103", (rank,))]
    assert facts(verdict) == facts(check(expanded(roles)))


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_programs_have_the_same_findings_by_role_and_by_rank(first):
    for seed in range(first, first + 20):
        given = random_program(seed)
        builder = RoleBuilder(Mesh(axes=((Axis.CP, given.world_size),)), given.observer, fixed_axes=frozenset())
        for rank in range(given.world_size):
            builder.add(rank, given.events[rank])
        roles = builder.build(credits=given.credits)
        assert expanded(roles).events == dict(given.events)
        by_symmetry, by_rank = check_roles(roles, with_cure=False), check(given, with_cure=False)
        assert by_symmetry.outcome is by_rank.outcome, seed
        assert by_symmetry.findings == by_rank.findings, seed
        assert by_symmetry.least_buffer_bytes == by_rank.least_buffer_bytes, seed
