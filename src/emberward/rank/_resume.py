"""Which save a run goes on from, and the proof that what was loaded is what was saved.

[Note: damage at a start]
All ranks together read every byte of the save before the first step: each proves what it loads, then a share of the
headers and of the tensors that nobody loads, then all compare the digests. What one rank finds, all of them raise, with
its words. By default a start refuses and says how to go on from the save before: an operator may rather repair a mount
than lose an interval. `save.damaged: older`, and a restart that nobody watches, go on, with a finding for each save.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from emberward import checkpoint
from emberward.checkpoint import Manifest, Shard
from emberward.engine import Engine
from emberward.findings import Cause, EmberwardError, Finding, Severity
from emberward.rank._random import PREFIX
from emberward.report import RunFolder, append_line

_WORD = 1 << 64
_HALF = 1 << 63


def ready_to_save(root: Path, *, rank: int) -> EmberwardError | None:
    """K103 when this rank could write no save into the folder of saves; None when it can.

    Asked before the first step, as the hours before the first save that fails would be lost. Rank 0 also removes what
    crashed saves left behind.
    """
    trial = root / f".trial-{rank:05d}.tmp"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with trial.open("wb"):
            pass
        trial.unlink()
        if rank == 0:
            checkpoint.clean_leftovers(root)
    except OSError as error:
        return EmberwardError(
            f"rank {rank} could not save here",
            code="K103",
            where=str(error.filename or root),
            expected="a folder in which every rank may make, write and remove files",
            found=error.strerror or str(error),
            next=f"fix the permissions or the mount of {root}, then start again",
            cause=Cause.CHECKPOINT_IO,
            ranks=(rank,),
        )
    return None


def require_run_save(path: Path, manifest: Manifest) -> None:
    """Raises K102 when the save is none of a training, such as one that was imported."""
    missing = [key for key in ("data_digest", "engine", "consumed_samples") if key not in manifest.meta]
    if missing:
        raise EmberwardError(
            "the save is not one of a training",
            code="K102",
            where=str(path),
            expected="where it stood in its data, and its optimizer's count",
            found="no " + ", no ".join(missing),
            next=f"move it out of the run; start.checkpoint={path} begins a new run with its weights",
        )


def resume_from_save(
    folder: RunFolder, engine: Engine, *, goes_older: bool, load: Callable[[Path], EmberwardError | None]
) -> Path | None:
    """The save that `load` took up: the newest, or an older one where that is allowed; None when the run has none.

    `load` gives the same answer on every rank. All ranks must call; blocks. Raises the error of the newest save when
    it is damaged and `goes_older` is False, K101 when no save is whole: starting anew in silence would lose the run.
    """
    is_writer = engine.world.rank == 0
    latest = checkpoint.find_latest(folder.checkpoints)
    path = latest.damaged or latest.path
    if latest.damaged is None and is_writer:
        for finding in latest.findings:
            append_line(folder.findings, finding.to_json())
    if path is None and latest.findings:
        raise _none_whole(folder.checkpoints, "; ".join(finding.message for finding in latest.findings))
    while path is not None:
        problem = load(path)
        if problem is None:
            return path
        older = checkpoint.older_save(path)
        if problem.code != "K101":
            raise problem
        if older is None:
            raise _none_whole(folder.checkpoints, f"{problem.what}: {problem.where}, {problem.found}")
        if not goes_older:
            raise _refused(problem, path, older)
        if is_writer:
            append_line(folder.findings, _passed_over(problem, path, older).to_json())
        path = older
    return None


def _none_whole(root: Path, found: str) -> EmberwardError:
    return EmberwardError(
        "no save of this run is whole",
        code="K101",
        where=str(root),
        expected="one whole save",
        found=found,
        next="restore a save, or start anew with --fresh",
        cause=Cause.CORRUPT_FILE,
    )


def _refused(problem: EmberwardError, path: Path, older: Path) -> EmberwardError:
    """`problem` with the way on from the older save."""
    return EmberwardError(
        problem.what,
        code=problem.code,
        where=problem.where,
        expected=problem.expected,
        found=problem.found,
        next=(
            f"mv {path} {path.with_name('damaged-' + path.name)}      "
            f"(then start again: it goes on from {older.name}; save.damaged=older does so by itself)"
        ),
        cause=problem.cause,
        ranks=problem.ranks,
    )


def _passed_over(problem: EmberwardError, path: Path, older: Path) -> Finding:
    return replace(
        problem.to_finding(),
        severity=Severity.WARNING,
        message=f"{path.name} is damaged ({problem.what}); the run goes on from {older.name}",
        next=f"emberward checkpoint verify {path}",
    )


def shared_problem(
    problem: EmberwardError | None, engine: Engine, agree: Callable[[bool], bool]
) -> EmberwardError | None:
    """The problem of the lowest rank that has one, on every rank; None when none has. All ranks must call; blocks."""
    if agree(problem is None):
        return None
    world = engine.world
    mine = None
    if problem is not None:
        mine = (problem.what, problem.code, problem.where, problem.expected, problem.found, problem.next, problem.cause)
    everyone: list[tuple[str, str, str | None, str | None, str | None, str | None, Cause] | None]
    everyone = [None] * world.mesh.size
    dist.all_gather_object(everyone, mine, group=world.channels["world"].handle)
    what, code, where, expected, found, then, cause = next(each for each in everyone if each is not None)
    return EmberwardError(what, code=code, where=where, expected=expected, found=found, next=then, cause=cause)


def load_share(path: Path, manifest: Manifest, engine: Engine, random: list[Shard]) -> EmberwardError | None:
    """What this rank found wrong with the save while it loaded its part; None when all is well.

    Fills the engine's tensors and those of `random`. See [Note: damage at a start].
    """
    world = engine.world
    try:
        checkpoint.read_probe(path)
        checkpoint.load(path, [*engine.shards(owned_only=False), *random])
        loaded = shared_tensors(manifest)
        findings = checkpoint.verify_rest(
            path, manifest, is_loaded=loaded.__contains__, share=world.rank, num_shares=world.mesh.size
        )
    except EmberwardError as error:
        return error
    if not findings:
        return None
    first = findings[0]
    evidence = dict(line.split(" ", 1) for line in first.evidence)
    return EmberwardError(
        first.message,
        code=first.code,
        where=first.site,
        expected=evidence.get("expected"),
        found=evidence.get("found"),
        next=first.next,
        cause=first.cause,
    )


def shared_tensors(manifest: Manifest) -> set[str]:
    """Tensors of the save that ranks load together: all but what belongs to one rank alone."""
    return {name for name in manifest.tensors if not name.startswith(PREFIX)}


def unequal_values(path: Path, manifest: Manifest, engine: Engine) -> EmberwardError | None:
    """K101, the same on every rank, unless each tensor's digest, over all ranks, is the saved one.

    The digest does not depend on the layout (``docs/checkpoints.md``), so that a resume on another layout is proved as
    well. All ranks must call; one all-reduce of one int64 a tensor; blocks.
    """
    shares = checkpoint.digest_of(engine.shards(owned_only=True))
    names = sorted(shared_tensors(manifest))
    # Shares add up modulo 2^64, as int64 does when it overflows; torch has no sum of uint64 on every backend.
    words = [shares.get(name, 0) for name in names]
    signed = torch.tensor([word - _WORD if word >= _HALF else word for word in words], dtype=torch.int64)
    totals = signed.to(engine.world.device)
    dist.all_reduce(totals, group=engine.world.channels["world"].handle)
    digests = {name: int(word) % _WORD for name, word in zip(names, totals.tolist(), strict=True)}
    findings = checkpoint.digest_findings(path, manifest, digests)
    if not findings:
        return None
    return EmberwardError(
        f"{len(findings)} tensors are not what was saved",
        code="K101",
        where=str(path),
        expected="the digests of its manifest",
        found=findings[0].message,
        next="emberward checkpoint verify " + str(path),
        cause=Cause.CORRUPT_FILE,
    )
