"""A run's saves: making them, beside the training or in it, and taking one up."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist

from emberward import checkpoint
from emberward.checkpoint import Begun, Keep, Probe, Shard, Written
from emberward.engine import Engine, StepTotals
from emberward.findings import Cause, Certainty, EmberwardError, Finding, Kind, Severity
from emberward.plan import learning_rate
from emberward.rank._position import Position
from emberward.rank._probing import judge, layout_of, numerics_of, probe_of, versions
from emberward.rank._random import random_shards, set_random_states
from emberward.rank._resume import (
    load_share,
    ready_to_save,
    require_run_save,
    resume_from_save,
    shared_problem,
    unequal_values,
)
from emberward.rank._start import begin_from
from emberward.recipe import OnDamage, Recipe, recipe_yaml
from emberward.report import RunFolder, append_line

WAIT_TOLD_S = 0.05
"""A wait for the save before that is shorter is not worth a word."""


class Background(Protocol):
    """What `checkpoint.BackgroundSaves` does for a saver; a dry run gives one that does nothing."""

    def begin(self, *, step: int, shards: Sequence[Shard], meta: Mapping[str, Any]) -> Begun:
        """Starts a save."""
        ...

    def poll(self) -> Written | None:
        """How the last one ended, told once; does not block."""
        ...

    def finish(self) -> Written | None:
        """The same, waited for."""
        ...

    def after(self, job: Callable[[], None]) -> None:
        """Does a job that does not raise once the save in flight has ended; does not block."""
        ...

    def close(self) -> None:
        """Waits until all is done."""
        ...


class Saver:
    """Saves and takes up one rank's part of a run. Every method must be called by all ranks together.

    `write` writes a checkpoint, as `checkpoint.save` does; `background` writes it beside the training, None where the
    recipe does not ask for that. A dry run gives its own of both. `next_batch` gives, for a position, the number of
    the first sample of the step that comes next and how many samples it has.
    """

    def __init__(
        self,
        *,
        recipe: Recipe,
        engine: Engine,
        folder: RunFolder,
        data_digest: str,
        write: Callable[..., object],
        background: Background | None,
        next_batch: Callable[[Position], tuple[int, int]],
    ) -> None:
        self._recipe = recipe
        self._engine = engine
        self._folder = folder
        self._data_digest = data_digest
        self._write = write
        self._background = background
        self._next_batch = next_batch
        self._saved_step: int | None = None
        self._resumed_step: int | None = None
        self._to_probe: tuple[Path, int, int, int] | None = None
        self._to_compare: tuple[Path, Probe] | None = None
        self._figures: dict[str, float | int] = {}
        self._is_wait_told = False

    @property
    def _rank(self) -> int:
        return self._engine.world.rank

    def has_saved(self, position: Position) -> bool:
        """Whether the last save, made or taken up, is of this very position."""
        return self._saved_step == position.step

    def is_resumed(self, position: Position) -> bool:
        """Whether this very position was loaded: the same on every rank whatever became of the saves since."""
        return self._resumed_step == position.step

    def figures(self) -> dict[str, float | int]:
        """What saves cost since the last call, for the metrics of the step: empty for most steps."""
        self._note(self._background.poll() if self._background is not None else None)
        figures, self._figures = self._figures, {}
        return figures

    # -- saving ------------------------------------------------------------------------------------------------------

    def save(self, position: Position) -> None:
        """Saves the run at `position`. Blocks until the save is whole, or beside the training until it is copied."""
        began_s = time.monotonic()
        shards = [*self._engine.shards(owned_only=True), *random_shards(self._engine.world)]
        meta = self._meta(position)
        if self._background is not None:
            begun = self._background.begin(step=position.step, shards=shards, meta=meta)
            self._note(self._background.poll() if begun.waited_for is not None else None)
            self._tell_wait(begun)
            self._figures["save_wait_s"] = begun.waited_s
            self._figures["save_staged_bytes"] = begun.staged_bytes
        else:
            self._write(
                self._folder.checkpoints,
                step=position.step,
                shards=shards,
                meta=meta,
                rank=self._rank,
                world_size=self._engine.world.mesh.size,
                agree=self._agree,
                keep=self.keep,
                read_back=self._recipe.save.verify,
            )
            self._figures["save_s"] = time.monotonic() - began_s
        self._figures["save_blocked_s"] = time.monotonic() - began_s
        self._saved_step = position.step
        self._to_probe = (self._path_of(position.step), position.step, *self._next_batch(position))

    def finish(self, *, is_last: bool = False) -> None:
        """Waits for the save in flight. When it failed: a finding, or with `is_last` its error. Blocks."""
        if self._background is not None:
            written = self._background.finish()
            if is_last and written is not None and written.error is not None:
                raise written.error
            self._note(written)

    def name_last(self, name: str) -> None:
        """Gives the save that was made last a name, so that it stays; rank 0 does, once it is whole."""
        if self._rank != 0 or self._saved_step is None:
            return
        path = self._path_of(self._saved_step)

        def job() -> None:
            try:
                if path.is_dir():
                    checkpoint.name_save(path, name)
            except OSError as error:
                self._not_beside(f"its name {name} could not be written: {error}")

        if self._background is not None:
            self._background.after(job)
        else:
            job()

    def close(self) -> None:
        """Waits for all that is still to be written, probes too. Blocks."""
        if self._background is not None:
            self._background.close()

    @property
    def keep(self) -> Keep:
        """Which saves stay."""
        return Keep(last=self._recipe.save.keep, every=self._recipe.save.keep_every)

    def _path_of(self, step: int) -> Path:
        return self._folder.checkpoints / checkpoint.step_name(step)

    def _meta(self, position: Position) -> dict[str, Any]:
        recipe = self._recipe
        assert recipe.train_samples is not None, "the recipe is not resolved"
        return {
            **position.counters(),
            "engine": dict(self._engine.state()),
            "scheduler": {
                "consumed_samples": position.consumed_samples,
                "lr": learning_rate(recipe.optim, position.consumed_samples, recipe.train_samples),
            },
            "data_digest": self._data_digest,
            "torch": torch.__version__,
            "versions": versions(),
            "layout": layout_of(recipe),
            "recipe": recipe_yaml(recipe),
        }

    def _note(self, written: Written | None) -> None:
        """Takes down how a background save ended. A failed one is a finding: the one before it is whole."""
        if written is None:
            return
        if written.error is None:
            self._figures["save_s"] = written.seconds
            notices = () if written.saved is None else written.saved.notices
            for notice in notices:
                append_line(self._folder.findings, notice.to_json())
            return
        if self._saved_step == written.step:
            self._saved_step = None
        if not isinstance(written.error, EmberwardError):
            raise written.error
        self._figures["save_failed"] = 1
        if not checkpoint.is_echo(written.error):
            finding = written.error.to_finding()
            append_line(
                self._folder.findings,
                replace(
                    finding,
                    severity=Severity.WARNING,
                    message=f"the save of step {written.step} failed, the run goes on: {finding.message}",
                ).to_json(),
            )

    def _tell_wait(self, begun: Begun) -> None:
        if begun.waited_for is None or begun.waited_s < WAIT_TOLD_S or self._is_wait_told or self._rank != 0:
            return
        self._is_wait_told = True
        finding = Finding(
            code="K106",
            severity=Severity.NOTICE,
            kind=Kind.RESOURCE,
            cause=Cause.CHECKPOINT_IO,
            certainty=Certainty.OBSERVED,
            message=(
                f"the save of step {begun.step} waited {begun.waited_s:.2f} s for that of step {begun.waited_for}: "
                "saves are asked for faster than they are written"
            ),
            next=f"save.interval={2 * (begun.step - begun.waited_for)}, or a faster file system for the saves",
        )
        append_line(self._folder.findings, finding.to_json())

    # -- probes ------------------------------------------------------------------------------------------------------

    def judge_of(self, position: Position) -> Callable[[StepTotals], None] | None:
        """What is to be told a step's totals before its update; None where they are compared with nothing."""
        if self._to_compare is None or position.step != self._resumed_step:
            return None
        return partial(self._judge, position=position)

    def _judge(self, totals: StepTotals, *, position: Position) -> None:
        """Compares a step's totals, before its update, with the probe of the save that was taken up.

        Raises K107 on every rank when they differ beyond the bound. Does not communicate: totals are the same on all.
        """
        assert self._to_compare is not None, "there is something to compare with: see judge_of"
        (path, saved), self._to_compare = self._to_compare, None
        batch = self._next_batch(position)
        if batch != (saved.first_sample, saved.num_samples):
            return
        found = self._probe(totals, position.step, *batch)
        finding = judge(saved, found, path=path)
        if finding is not None and self._rank == 0:
            append_line(self._folder.findings, finding.to_json())

    def add_probe(self, totals: StepTotals) -> None:
        """Takes the totals of the first step after a save as that save's probe; else does nothing. Does not block."""
        if self._to_probe is None:
            return
        (path, *batch), self._to_probe = self._to_probe, None
        probe = self._probe(totals, *batch)
        if probe is None or self._rank != 0:
            return

        def job() -> None:
            try:
                if path.is_dir():
                    checkpoint.write_probe(path, probe)
            except OSError as error:
                self._not_beside(f"its probe could not be written: {error}")

        if self._background is not None:
            self._background.after(job)
        else:
            job()

    def _probe(self, totals: StepTotals, step: int, first_sample: int, num_samples: int) -> Probe | None:
        numerics = numerics_of(self._recipe, self._engine.world)
        return probe_of(totals, step=step, first_sample=first_sample, num_samples=num_samples, numerics=numerics)

    def _not_beside(self, what: str) -> None:
        finding = Finding(
            code="K104",
            severity=Severity.WARNING,
            kind=Kind.RESOURCE,
            cause=Cause.CHECKPOINT_IO,
            certainty=Certainty.OBSERVED,
            message=f"the checkpoint is saved, but {what}",
            next=f"check the file system of {self._folder.checkpoints}",
        )
        append_line(self._folder.findings, finding.to_json())

    # -- taking up ---------------------------------------------------------------------------------------------------

    def resume(self, *, is_unattended: bool = False) -> Position | None:
        """The position of the newest save after it was loaded; None when there is none: then `recipe.start` is taken.

        Blocks; reads files.

        Raises EmberwardError K103 when a rank could not save here, D102 when the data is not what the save was trained
        on, K101 when the save is damaged and neither the recipe nor `is_unattended` lets an older one be taken. See
        `_resume.py` [Note: damage at a start].
        """
        problem = ready_to_save(self._folder.checkpoints, rank=self._rank)
        # The agreement is also what keeps everybody from looking while rank 0 still puts saves back.
        problem = shared_problem(problem, self._engine, self._agree)
        if problem is not None:
            raise problem
        found: list[Position] = []

        def load(path: Path) -> EmberwardError | None:
            problem = self._load(path, found)
            return problem

        goes_older = is_unattended or self._recipe.save.damaged is OnDamage.OLDER
        path = resume_from_save(self._folder, self._engine, goes_older=goes_older, load=load)
        if path is None:
            begin_from(self._engine, self._recipe.start, self._agree)
            return None
        position = found[-1]
        self._saved_step = self._resumed_step = position.step
        probe = checkpoint.read_probe(path)
        self._to_compare = None if probe is None else (path, probe)
        return position

    def _load(self, path: Path, found: list[Position]) -> EmberwardError | None:
        """Loads the save and adds its position to `found`, or gives what is wrong with it, alike on every rank."""
        problem, random = None, list[Shard]()
        manifest = None
        try:
            manifest = checkpoint.read_manifest(path)
            require_run_save(path, manifest)
            self._require_same_data(path, manifest.meta["data_digest"])
            if manifest.meta.get("layout") == layout_of(self._recipe):
                random = [each for each in random_shards(self._engine.world) if each.name in manifest.tensors]
            problem = load_share(path, manifest, self._engine, random)
        except EmberwardError as error:
            problem = error
        problem = shared_problem(problem, self._engine, self._agree)
        if problem is not None:
            return problem
        assert manifest is not None
        problem = unequal_values(path, manifest, self._engine)
        if problem is None:
            self._engine.load_state(manifest.meta["engine"])
            set_random_states(random, self._engine.world)
            found.append(Position.of(step=manifest.step, counters=manifest.meta))
        return problem

    def _require_same_data(self, path: Path, saved: str) -> None:
        if saved != self._data_digest:
            raise EmberwardError(
                "the data changed since the run began",
                code="D102",
                where=str(path),
                expected=f"data {saved[:16]}",
                found=f"data {self._data_digest[:16]}",
                next="restore the old data, or start anew with --fresh",
            )

    def _agree(self, is_right: bool) -> bool:
        """Whether `is_right` on every rank. All ranks must call; blocks."""
        world = self._engine.world
        vote = torch.tensor([0 if is_right else 1], device=world.device)
        dist.all_reduce(vote, group=world.channels["world"].handle)
        return world.read("vote", vote)[0] == 0
