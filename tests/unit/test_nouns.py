"""The nouns of floor 0: events, findings, layout."""

import json

import pytest

from emberward.events import (
    Acquire,
    Barrier,
    Collective,
    CollectiveOp,
    Compute,
    Group,
    GroupCreate,
    HostSync,
    Lane,
    LaneKind,
    Observer,
    Phase,
    Recv,
    ReduceOp,
    Release,
    Send,
    Site,
    Stage,
    StoreSet,
    StoreWait,
    SyncKind,
    Trace,
    TraceBuilder,
    TraceFormatError,
    Wait,
    describe,
    from_lines,
    read_trace,
    to_lines,
    write_trace,
)
from emberward.findings import (
    CATALOGUE,
    Cause,
    Certainty,
    ConfigError,
    CycleMember,
    Finding,
    FindingPhase,
    Kind,
    Severity,
    exit_code_of,
)
from emberward.layout import Axis, Broadcast, Layout, Mesh, Partial, Split, chunk, local_box, local_shape

HOST = Lane(kind=LaneKind.HOST)
COMM = Lane(kind=LaneKind.COMM, index=3, label="tp")


def every_kind_of_event() -> Trace:
    builder = TraceBuilder(world_size=3, observer=Observer.LIVE)
    builder.set_credit("buffer", 2, rank=1)
    group = Group(ranks=(0, 1), index=1, label="tp")
    site = Site(file="train.py", line=43, function="step")
    phase = Phase(step=7, micro_batch=0, stage=Stage.FORWARD)
    made = builder.add(0, HOST, GroupCreate(group=group, members=(0, 1)))
    reduce = builder.add(
        0,
        COMM,
        Collective(
            op=CollectiveOp.ALL_REDUCE,
            group=group,
            dtype="float32",
            numel=12,
            reduce_op=ReduceOp.SUM,
            shape=(3, 4),
            tensor="grad",
        ),
        after=[made.ref],
        site=site,
        phase=phase,
    )
    builder.add(0, HOST, Wait(on=reduce.ref), site=site)
    builder.add(0, HOST, Send(peer=1, group=group, tag=0, batch=0, dtype="bfloat16", numel=4, tensor="h"))
    builder.add(1, HOST, Recv(peer=0, group=group, tag=0, batch=0, dtype="bfloat16", numel=4, shape=(2, 2)))
    builder.add(1, HOST, Acquire(credit="buffer"))
    builder.add(1, HOST, Compute(name="forward"), phase=Phase(stage=Stage.EVAL, name="valid"))
    builder.add(1, HOST, Release(credit="buffer"))
    builder.add(1, HOST, HostSync(kind=SyncKind.ITEM, lane=COMM))
    builder.add(1, HOST, Barrier(group=group))
    builder.add(1, HOST, StoreSet(key="k"))
    builder.add(1, HOST, StoreWait(key="k"))
    return builder.build(assumptions=["one host thread per device"])


def test_a_trace_survives_the_codec_whole(tmp_path):
    trace = every_kind_of_event()
    write_trace(trace, tmp_path / "trace.jsonl")
    assert read_trace(tmp_path / "trace.jsonl") == trace
    assert trace.unknown_ranks == (2,)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


def test_sizes_of_parts_make_a_trace_version_2_and_no_other_does():
    plain = list(to_lines(every_kind_of_event()))
    assert json.loads(plain[0])["emberward_trace"] == 1
    assert not any(name in line for line in plain for name in ("in_splits", "out_splits", "parts"))
    builder = TraceBuilder(world_size=2, observer=Observer.DRY_RUN)
    group = Group(ranks=(0, 1))
    builder.add(0, HOST, Collective(op=CollectiveOp.ALL_TO_ALL, group=group, in_splits=(0, 3), out_splits=(2, 1)))
    builder.add(0, HOST, Collective(op=CollectiveOp.ALL_REDUCE, group=group, numel=5, parts=(2, 3)))
    trace = builder.build()
    lines = list(to_lines(trace))
    assert json.loads(lines[0])["emberward_trace"] == 2
    assert from_lines(lines) == trace


def test_every_cut_of_a_trace_is_refused():
    lines = list(to_lines(every_kind_of_event()))
    for kept in range(len(lines)):
        with pytest.raises(TraceFormatError):
            from_lines(lines[:kept])
    with pytest.raises(TraceFormatError, match="text after the footer"):
        from_lines([*lines, lines[-1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(emberward_trace=3), "version 1 or 2, found 3"),
        (lambda d: d.pop("emberward_trace"), "found None"),
    ],
)
def test_a_foreign_header_is_refused(change, message):
    lines = list(to_lines(every_kind_of_event()))
    header = json.loads(lines[0])
    change(header)
    with pytest.raises(TraceFormatError, match=message):
        from_lines([json.dumps(header), *lines[1:]])


def test_unknown_keys_of_an_event_are_refused():
    lines = list(to_lines(every_kind_of_event()))
    lines[1] = json.dumps({**json.loads(lines[1]), "color": "red"})
    with pytest.raises(TraceFormatError, match=r"line 2: not an event \(unknown keys \['color'\]\)"):
        from_lines(lines)


def test_a_trace_with_a_gap_in_a_lane_is_refused():
    trace = every_kind_of_event()
    with pytest.raises(ValueError, match="expected position 0 of rank 1, found position 1"):
        Trace(world_size=3, events={1: trace.events[1][1:]}, observer=Observer.LIVE)


def test_group_and_lane_compare_without_their_labels():
    assert Group(ranks=(0, 1), label="a") == Group(ranks=(0, 1), label="b")
    assert Group(ranks=(0, 1), index=1) != Group(ranks=(0, 1))
    assert hash(Lane(kind=LaneKind.HOST, label="main")) == hash(HOST)


def test_descriptions_are_short_and_name_rank_zero():
    assert describe(Send(peer=0, tag=2)) == "send to 0 tag 2"
    assert describe(Collective(op=CollectiveOp.BROADCAST, group=Group(ranks=(0, 1)), root=0)) == (
        "broadcast group[0,1] root 0"
    )


def full_finding() -> Finding:
    return Finding(
        code="M104",
        severity=Severity.ERROR,
        kind=Kind.DEADLOCK,
        cause=Cause.CYCLE_P2P,
        certainty=Certainty.PROVED,
        message="ranks 0 and 1 each wait for the other",
        cycle=(CycleMember(rank=0, op="recv from 1", site="tiny.py:41", waits_for=(1,)),),
        phase=FindingPhase(step=0, micro_batch=0, stage="B"),
        next="emberward check recipes/tiny.py",
    )


def test_a_finding_round_trips_and_always_has_every_key():
    finding = full_finding()
    data = json.loads(json.dumps(finding.to_json()))
    assert Finding.from_json(data) == finding
    assert list(data) == [
        "code",
        "severity",
        "kind",
        "cause",
        "certainty",
        "culprit_ranks",
        "culprit_pids",
        "waiting_ranks",
        "hosts",
        "site",
        "cycle",
        "phase",
        "message",
        "evidence",
        "ruled_out",
        "next",
    ]


def test_only_an_error_makes_exit_code_one():
    notice = Finding.from_json({**full_finding().to_json(), "severity": "notice"})
    warning = Finding.from_json({**full_finding().to_json(), "severity": "warning"})
    assert exit_code_of([notice, warning]) == 0
    assert exit_code_of([notice, full_finding()]) == 1


def test_an_error_prints_its_four_facts_and_becomes_a_finding():
    error = ConfigError(
        "unknown key 'optim.lrr'",
        code="C101",
        where="my.yaml:3",
        expected="one of lr, lr_min",
        found="lrr",
        next="did you mean optim.lr?",
    )
    assert str(error) == (
        "C101 unknown key 'optim.lrr'\n"
        "  where     my.yaml:3\n"
        "  expected  one of lr, lr_min\n"
        "  found     lrr\n"
        "  next      did you mean optim.lr?"
    )
    finding = error.to_finding()
    assert (finding.kind, finding.site, error.exit_code) == (Kind.CONFIG, "my.yaml:3", 2)
    assert finding.code in CATALOGUE


def test_mesh_coordinates_and_groups_agree():
    mesh = Mesh(axes=((Axis.PP, 2), (Axis.DP_SHARD, 2), (Axis.TP, 2)))
    assert mesh.coordinates(5) == {Axis.PP: 1, Axis.DP_SHARD: 0, Axis.TP: 1}
    assert all(mesh.rank_at(mesh.coordinates(rank)) == rank for rank in mesh.ranks)
    assert mesh.group(5, Axis.TP) == (4, 5)
    assert mesh.group(5, Axis.PP) == (1, 5)
    assert mesh.group(5, Axis.CP) == (5,)
    assert list(mesh.groups(Axis.DP_SHARD)) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    with pytest.raises(ValueError, match="rank 8 is not in the mesh"):
        mesh.coordinates(8)


def test_local_boxes_tile_a_tensor_even_when_sizes_are_uneven():
    mesh = Mesh(axes=((Axis.DP_SHARD, 3), (Axis.TP, 2)))
    layout = Layout({Axis.TP: Split(0), Axis.DP_SHARD: Split(0)})
    rows = [local_box((7, 4), layout, mesh, rank)[0] for rank in mesh.ranks]
    covered = sorted(row for start, stop in rows for row in range(start, stop))
    assert covered == list(range(7))
    assert local_shape((7, 4), Layout({Axis.TP: Split(1)}), mesh, 1) == (7, 2)
    assert local_shape((7, 4), Layout({Axis.TP: Partial()}), mesh, 1) == (7, 4)
    assert Layout({}).on(Axis.TP) == Broadcast()
    assert [chunk(5, 4, index) for index in range(4)] == [(0, 2), (2, 4), (4, 5), (5, 5)]


def test_a_split_of_a_missing_dim_is_refused():
    mesh = Mesh(axes=((Axis.TP, 2),))
    with pytest.raises(ValueError, match="splits dim 2"):
        local_box((4, 4), Layout({Axis.TP: Split(2)}), mesh, 0)
