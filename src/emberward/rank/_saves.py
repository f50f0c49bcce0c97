"""A run's saves: making them, which one it goes on from, and the proof that what was loaded is what was saved."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from emberward import checkpoint
from emberward.checkpoint import Manifest
from emberward.engine import Engine
from emberward.findings import Cause, EmberwardError, Severity
from emberward.rank._position import Position
from emberward.recipe import Recipe
from emberward.report import RunFolder, append_line

_WORD = 1 << 64
_HALF = 1 << 63


class Saver:
    """Saves and takes up one rank's part of a run. Every method must be called by all ranks together.

    `write` writes a checkpoint, as `checkpoint.save` does; a dry run gives its own.
    """

    def __init__(
        self, *, recipe: Recipe, engine: Engine, folder: RunFolder, data_digest: str, write: Callable[..., object]
    ) -> None:
        self._recipe = recipe
        self._engine = engine
        self._folder = folder
        self._data_digest = data_digest
        self._write = write
        self._saved_step: int | None = None

    def has_saved(self, position: Position) -> bool:
        """Whether the last save, made or taken up, is of this very position."""
        return self._saved_step == position.step

    def save(self, position: Position) -> None:
        """Saves the run at `position`. Blocks until the save is whole."""
        world = self._engine.world
        self._write(
            self._folder.checkpoints,
            step=position.step,
            shards=self._engine.shards(owned_only=True),
            meta={
                **position.counters(),
                "engine": dict(self._engine.state()),
                "data_digest": self._data_digest,
                "torch": torch.__version__,
            },
            rank=world.rank,
            world_size=world.mesh.size,
            agree=self._agree,
            keep=self._recipe.save.keep,
        )
        self._saved_step = position.step

    def resume(self) -> Position | None:
        """The position of the newest whole save after it was loaded; None when there is none. Blocks; reads files.

        Raises EmberwardError D102 when the data is not what the save was trained on, K101 when no save is whole or the
        loaded values are not those that were saved.
        """
        path = newest_save(self._folder, is_writer=self._engine.world.rank == 0)
        if path is None:
            return None
        manifest = checkpoint.read_manifest(path)
        meta = manifest.meta
        if meta["data_digest"] != self._data_digest:
            raise EmberwardError(
                "the data changed since the run began",
                code="D102",
                where=str(path),
                expected=f"data {meta['data_digest'][:16]}",
                found=f"data {self._data_digest[:16]}",
                next="restore the old data, or start anew with --fresh",
            )
        checkpoint.load(path, self._engine.shards(owned_only=False))
        require_saved_values(path, manifest, self._engine)
        self._engine.load_state(meta["engine"])
        self._saved_step = manifest.step
        return Position.of(step=manifest.step, counters=meta)

    def _agree(self, is_right: bool) -> bool:
        """Whether `is_right` on every rank. All ranks must call; blocks."""
        world = self._engine.world
        vote = torch.tensor([0 if is_right else 1], device=world.device)
        dist.all_reduce(vote, group=world.channels["world"].handle)
        return world.read("vote", vote)[0] == 0


def newest_save(folder: RunFolder, *, is_writer: bool) -> Path | None:
    """The newest whole save of the run; None when it never saved. What was passed over goes to findings.jsonl.

    Raises EmberwardError K101 when there were saves and none is whole: starting anew in silence would lose the run.
    """
    latest = checkpoint.find_latest(folder.checkpoints)
    if is_writer:
        for finding in latest.findings:
            append_line(folder.findings, finding.to_json())
    errors = [finding for finding in latest.findings if finding.severity is Severity.ERROR]
    if latest.path is None and errors:
        raise EmberwardError(
            "no save of this run is whole",
            code="K101",
            where=str(folder.checkpoints),
            expected="one whole save",
            found="; ".join(finding.message for finding in errors),
            next="restore a save, or start anew with --fresh",
            cause=Cause.CORRUPT_FILE,
        )
    return latest.path


def require_saved_values(path: Path, manifest: Manifest, engine: Engine) -> None:
    """Raises EmberwardError K101 on every rank unless each tensor's digest, over all ranks, is the saved one.

    The digest does not depend on the layout (``docs/checkpoints.md``), so that a resume on another layout is proved as
    well. All ranks must call; one all-reduce of one int64 a tensor; blocks.
    """
    shares = checkpoint.digest_of(engine.shards(owned_only=True))
    names = sorted(manifest.tensors)
    # Shares add up modulo 2^64, as int64 does when it overflows; torch has no sum of uint64 on every backend.
    words = [shares.get(name, 0) for name in names]
    signed = torch.tensor([word - _WORD if word >= _HALF else word for word in words], dtype=torch.int64)
    totals = signed.to(engine.world.device)
    dist.all_reduce(totals, group=engine.world.channels["world"].handle)
    digests = {name: int(word) % _WORD for name, word in zip(names, totals.tolist(), strict=True)}
    findings = checkpoint.digest_findings(path, manifest, digests)
    if findings:
        raise EmberwardError(
            f"{len(findings)} tensors are not what was saved",
            code="K101",
            where=str(path),
            expected="the digests of its manifest",
            found=findings[0].message,
            next="emberward checkpoint verify " + str(path),
            cause=Cause.CORRUPT_FILE,
        )
