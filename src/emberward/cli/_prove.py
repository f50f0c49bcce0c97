"""The proof of a recipe: its roles run dry in a child process, the judge looks at all ranks. No torch here."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from emberward import __version__
from emberward.cli._machine import require_torch
from emberward.events import Event, Observer, Trace
from emberward.families import model_of
from emberward.findings import Cause, Certainty, ConfigError, Finding, Severity, require_code
from emberward.layout import Axis, Mesh, chunk
from emberward.match import RoleBuilder, RoleTrace, Verdict, check, check_roles
from emberward.plan import lane_credits
from emberward.processes import ProcessTree
from emberward.recipe import Device, Recipe, Resolved, has_backward_lane, mesh_of, two_lanes_of, write_resolved
from emberward.report import RunFolder, read_json
from emberward.runs import recipe_digest
from emberward.sources import Certificate, DryJob, JobFolder, RankError, Transport, role_numbers

MAX_PLAIN_RANKS = 64
"""With all ranks run dry: up to here each is judged by itself, beyond by the roles that are found."""
TIME_LIMIT_S = 600.0
STDERR_TAIL = 2000
ONE_PROGRAM = "the ranks of a role run one program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found about a recipe before its launch. `verdict` is None when a rank's program raised.

    `not_examined` lists what the verdict says nothing about. `programs` holds what each rank that ran dry did.
    """

    verdict: Verdict | None
    findings: tuple[Finding, ...]
    assumptions: tuple[str, ...]
    not_examined: tuple[str, ...]
    num_roles: int
    num_ranks: int
    num_events: int
    seconds: float
    programs: Mapping[int, tuple[Event, ...]]
    certificate: Certificate | None
    """The proved order, for the ranks to compare while they run; None when the recipe is not proved."""

    @property
    def is_proved(self) -> bool:
        """Every call of what was examined ends, with rendezvous sends."""
        return self.verdict is not None and self.verdict.is_proof


def prove_recipe(
    resolved: Resolved,
    *,
    environment: Mapping[str, str],
    all_ranks: bool = False,
    on_wait: Callable[[float, int, int], None] | None = None,
) -> Proof:
    """The proof of a resolved recipe. Blocks while a child process runs the roles dry, at most TIME_LIMIT_S.

    `on_wait` is called several times a second with the seconds for which the child has run, and how many roles of how
    many ran. With `all_ranks` every rank is run dry, and none is taken for granted by symmetry. Raises ConfigError C110
    without torch, and that of a rank that ran dry and refused the recipe.
    """
    require_torch("the proof of a recipe, which runs its roles dry")
    began_s = time.monotonic()
    recipe = resolved.recipe
    mesh = mesh_of(recipe.layout)
    owners = tuple(mesh.ranks) if all_ranks else representatives(mesh, recipe)
    ranks = tuple(sorted(set(owners)))
    job = DryJob(
        ranks=ranks,
        eval_samples=_eval_samples(recipe),
        transport=Transport.GLOO if recipe.device is Device.CPU else Transport.NCCL,
        num_workers=max(1, min(len(ranks), os.cpu_count() or 1)),
    )
    with ProcessTree() as tree:
        folder = JobFolder(path=tree.folder("emberward-check-"))
        folder.write_job(job)
        write_resolved(resolved, folder.recipe)
        tail = _run_child(tree, folder, environment, ranks, on_wait)
        with _collector_off():
            events, errors = folder.read_results(ranks)
            for error in errors:
                if error.refusal is not None:
                    # A recipe that the ranks refuse is no fault of their program.
                    raise ConfigError(**error.refusal)
            verdict = None if errors else _judge(recipe, events, owners, all_ranks=all_ranks)
            is_certified = verdict is not None and not has_backward_lane(recipe)
            certificate = _certificate(folder, resolved, owners) if is_certified else None
    findings = tuple(_raised(errors, tail)) if verdict is None else verdict.findings
    assumptions = () if verdict is None else verdict.assumptions
    return Proof(
        verdict=verdict,
        findings=findings,
        assumptions=(
            *(assumptions if certificate is None else map(_with_certificate, assumptions)),
            *_declared(recipe, job),
        ),
        not_examined=(
            *_not_examined(recipe, resolved, certificate),
            *(() if verdict is None else verdict.not_compared),
        ),
        num_roles=len(ranks),
        num_ranks=mesh.size,
        num_events=sum(map(len, events.values())),
        seconds=time.monotonic() - began_s,
        programs=events,
        certificate=certificate if verdict is not None and verdict.is_safe else None,
    )


@contextmanager
def _collector_off() -> Iterator[None]:
    """Python's collector rests, and leaves alone for good what was made: millions of frozen values, none in a cycle.

    Looking at them again and again is two thirds of the time in which the events of 16 roles are read.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def _certificate(folder: JobFolder, resolved: Resolved, owners: Sequence[int]) -> Certificate:
    """The order in which the roles were run dry, for this recipe and these versions."""
    programs, torch_version = folder.read_programs(sorted(set(owners)))
    return Certificate(
        recipe=recipe_digest(resolved),
        emberward=__version__,
        torch=torch_version,
        role_of=role_numbers(owners),
        roles=programs,
    )


def representatives(mesh: Mesh, recipe: Recipe) -> tuple[int, ...]:
    """For each rank the one that stands for it: the first of its pipeline stage that sends as much in every call,
    and whose lanes are in its own order.

    Where tp cuts heads unevenly, its ranks are of several roles. So are those of dp where it cuts unevenly what is
    summed over tp or over the tied ends after the backwards; what ZeRO sends is padded to one length.
    """
    model = model_of(recipe.model)
    tp, shards = mesh.axis_size(Axis.TP), mesh.axis_size(Axis.DP_SHARD)
    tied = model.tied if mesh.axis_size(Axis.PP) > 1 else frozenset[str]()
    summed = [
        spec
        for name, spec in model.tensors.items()
        if name in tied or spec.is_partial(tp, splits_positions=recipe.splits_sequence)
    ]
    first: dict[object, tuple[int, int]] = {}
    stand_ins: dict[tuple[int, int], tuple[int, int]] = {}
    for tp_rank in range(tp):
        shapes = tuple(spec.local_shape(tp, tp_rank) for spec in model.tensors.values())
        lanes = two_lanes_of(recipe, pp_rank=0, tp_rank=tp_rank)
        lengths = [spec.local_shape(tp, tp_rank)[0] for spec in summed]
        for shard in range(shards):
            parts = (chunk(length, shards, shard) for length in lengths)
            key = shapes, lanes, tuple(stop - start for start, stop in parts)
            stand_ins[shard, tp_rank] = first.setdefault(key, (shard, tp_rank))
    owners = []
    for at in map(mesh.coordinates, mesh.ranks):
        shard, tp_rank = stand_ins[at.get(Axis.DP_SHARD, 0), at.get(Axis.TP, 0)]
        owners.append(mesh.rank_at({Axis.PP: at.get(Axis.PP, 0), Axis.DP_SHARD: shard, Axis.TP: tp_rank}))
    return tuple(owners)


def _eval_samples(recipe: Recipe) -> dict[str, int]:
    sources = recipe.evaluation.sets or (recipe.data.train if recipe.data.held_out > 0 else ())
    return {source.name or source.path: recipe.evaluation.samples for source in sources}


def _run_child(
    tree: ProcessTree,
    folder: JobFolder,
    environment: Mapping[str, str],
    ranks: Sequence[int],
    on_wait: Callable[[float, int, int], None] | None,
) -> str:
    """The end of what the child wrote to standard error. Its workers end with the tree."""

    def watch(passed_s: float) -> None:
        if on_wait is not None:
            on_wait(passed_s, sum(folder.events(rank).exists() for rank in ranks), len(ranks))

    done = tree.run(
        (sys.executable, "-m", "emberward.rank.dry", str(folder.path)),
        environment={**environment, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "TMPDIR": str(folder.path)},
        timeout_s=TIME_LIMIT_S,
        on_wait=watch,
    )
    if done.code is None:
        return f"the dry run did not end within {TIME_LIMIT_S:.0f} s"
    return done.errors.decode(errors="replace")[-STDERR_TAIL:]


def _judge(
    recipe: Recipe, events: Mapping[int, tuple[Event, ...]], owners: Sequence[int], *, all_ranks: bool
) -> Verdict:
    mesh, observer = mesh_of(recipe.layout), Observer.DRY_RUN
    credits: dict[tuple[int | None, str], int] = {
        (None, name): capacity for name, capacity in lane_credits(recipe.layout.lane_credit).items()
    }
    if not all_ranks:
        return check_roles(
            RoleTrace(mesh=mesh, programs=events, representative_of=owners, observer=observer, credits=credits)
        )
    if mesh.size <= MAX_PLAIN_RANKS:
        return check(Trace(world_size=mesh.size, events=events, observer=observer, credits=credits))
    builder = RoleBuilder(mesh, observer)
    for rank in mesh.ranks:
        builder.add(rank, events[rank])
    return check_roles(builder.build(credits=credits))


def _raised(errors: Sequence[RankError], tail: str) -> list[Finding]:
    """One finding for each different error."""
    merged: dict[tuple[str, str], list[RankError]] = {}
    for error in errors:
        merged.setdefault((error.type, error.message), []).append(error)
    return [
        Finding(
            code="M109",
            severity=Severity.ERROR,
            kind=require_code("M109").kind,
            cause=Cause.EXCEPTION,
            certainty=Certainty.OBSERVED,
            message=f"{same[0].type} in the dry run: {same[0].message or tail}",
            culprit_ranks=tuple(error.rank for error in same),
            site=same[0].site,
            evidence=tuple(same[0].traceback.strip().splitlines()[-6:]),
            next="repair the line, then check again; with no such line of your own this is a limit of the dry run",
        )
        for same in merged.values()
    ]


def _declared(recipe: Recipe, job: DryJob) -> tuple[str, ...]:
    lines = [
        "each step has tokens; one that is not finite was run too, with the search for its cause, which finds nothing",
        "each save is written well on every rank, and sampled tokens change no call",
        "copies that are compared are equal",
        f"device calls follow the rules of {job.transport.value}",
    ]
    if job.eval_samples:
        sets = ", ".join(job.eval_samples)
        lines.append(f"evaluation sets ({sets}) hold {recipe.evaluation.samples} samples or repeat the same calls")
    return tuple(lines)


def _with_certificate(assumption: str) -> str:
    """The assumption, and who holds the run to it where somebody does."""
    if not assumption.startswith(ONE_PROGRAM):
        return assumption
    return f"{assumption}; in a run the certificate checks it on every rank, from step 1 on"


def _not_examined(recipe: Recipe, resolved: Resolved, certificate: Certificate | None) -> tuple[str, ...]:
    found = [
        f"steps after the second of {recipe.steps}: they repeat it while all ranks share the step's totals",
        "what a rank does after an exception of its own or of its machine, and after a save that failed",
        "what a resume reads back and proves",
    ]
    if has_backward_lane(recipe):
        found.append(
            "which call a rank of two lanes makes next: no certificate is written, nothing is compared in the run"
        )
    batch = resolved.batch
    between = sorted({batch.accumulation_at(phase.first_sample) for phase in batch.phases()})[1:-1]
    if between:
        sizes = f"steps of {', '.join(map(str, between))} micro-batches, of the ramp-up between the first and the last"
        is_certain = certificate is not None and all(
            role.forms("step", count) is not None for role in certificate.roles for count in between
        )
        found.append(f"{sizes}: " + ("what ran repeats one part, and so must they" if is_certain else "not certified"))
    return tuple(found)


def certified_line(folder: RunFolder, num_ranks: int) -> str | None:
    """That every rank of the attempt ran its first step as proved, once each has said so; None until then."""
    for rank in range(num_ranks):
        if "certified_calls" not in (read_json(folder.rank_file(rank)) or {}):
            return None
    ranks = "the rank" if num_ranks == 1 else f"all {num_ranks} ranks"
    return f"checked: {ranks} ran the first step as it was proved"
