"""What a run watches in its own numbers after each step, and what it does about it.

Every decision is made from values that all ranks share, so that all make it alike: see `_trainer.py`
[Note: what ranks agree on]. Rank 0 writes what was found.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from emberward import checkpoint
from emberward.engine import Engine, Inspection, MicroBatch, StepTotals
from emberward.events import Phase
from emberward.findings import EmberwardError, Finding, Severity
from emberward.health import (
    Detour,
    SpikeSeen,
    SpikeTurn,
    SpikeWatch,
    rate_factor,
    skipped_before,
    spike_finding,
)
from emberward.rank._drift import Digests, RealDigests, ReplicaWatch
from emberward.rank._events import Enter
from emberward.rank._not_finite import inspect_step, is_worth_inspecting
from emberward.rank._position import Position
from emberward.recipe import Recipe, SpikePolicy
from emberward.report import RunFolder, append_line

LONG_STREAK = 5
"""Steps in a row that are not finite after which one is inspected even where `health.inspect` were before."""


class Instruments(Protocol):
    """What the watches look with; a dry run, whose tensors hold nothing, gives its own."""

    @property
    def digests(self) -> Digests:
        """For the comparison of copies."""

    def inspect(self, engine: Engine) -> AbstractContextManager[Inspection]:
        """Watches the operations of a step that is run again."""


class RealInstruments:
    """Looks at real tensors."""

    def __init__(self, engine: Engine) -> None:
        self.digests: Digests = RealDigests(engine.world.device)

    def inspect(self, engine: Engine) -> AbstractContextManager[Inspection]:
        """Watches the operations of a step that is run again."""
        return engine.inspected()


class RunHealth:
    """One rank's watches over a run. Every method but the plain questions must be called by all ranks together.

    `detours` are the run's rewinds, in order; `enter` is told the phases of what the watches do together.
    """

    def __init__(
        self,
        *,
        recipe: Recipe,
        engine: Engine,
        folder: RunFolder,
        detours: Sequence[Detour],
        enter: Enter | None,
        instruments: Instruments | None = None,
    ) -> None:
        config = recipe.health
        self._recipe = recipe
        self._engine = engine
        self._folder = folder
        self._detours = tuple(detours)
        self._enter = enter
        self._instruments: Instruments = RealInstruments(engine) if instruments is None else instruments
        self._copies: ReplicaWatch | None = None
        if config.drift_interval is not None and engine.world.mesh.size > 1:
            self._copies = ReplicaWatch(engine, policy=config.on_drift, enter=enter, digests=self._instruments.digests)
        self._spikes = None if config.spike_ratio is None else SpikeWatch(ratio=config.spike_ratio)
        self._kept_step: int | None = None
        self._num_inspected = 0
        self._streak = 0
        self._is_streak_inspected = False

    # -- detours -----------------------------------------------------------------------------------------------------

    def rate_factor(self, position: Position) -> float:
        """What the learning rate of the next step is multiplied by."""
        return rate_factor(self._detours, position.step)

    def num_skipped_samples(self, consumed_samples: int) -> int:
        """Samples that rewinds have left out before the step that begins after `consumed_samples` trained ones."""
        return skipped_before(self._detours, consumed_samples)

    # -- after a step ------------------------------------------------------------------------------------------------

    def inspect(self, totals: StepTotals, micro_batches: Sequence[MicroBatch], *, step: int, lr: float) -> None:
        """Finds what made the step, counted from 0, not finite, for the first few such steps of an attempt. Blocks.

        And for the LONG_STREAK-th in a row. Raises EmberwardError R105 on all ranks when a parameter is not finite: the
        run would skip every step from there on, and its saves would take the place of the good ones.
        """
        config = self._recipe.health
        compute, loss_scale = self._recipe.precision.compute, self._engine.loss_scale.scale
        self._streak += 1
        is_long = self._streak >= LONG_STREAK and not self._is_streak_inspected and config.inspect > 0
        if (self._num_inspected >= config.inspect and not is_long) or not is_worth_inspecting(
            totals, compute=compute, loss_scale=loss_scale
        ):
            return
        self._num_inspected += 1
        self._is_streak_inspected = self._streak >= LONG_STREAK
        watch = self._instruments.inspect
        finding = inspect_step(self._engine, micro_batches, step=step, lr=lr, watch=watch, enter=self._enter)
        self._write(finding)
        self._end_phase(step)
        if finding.severity is Severity.ERROR:
            raise EmberwardError(
                finding.message,
                code=finding.code,
                expected="finite parameters: no step changes them otherwise, and each save would hold what is spoilt",
                found="; ".join(finding.evidence) or "values that are not finite",
                next=finding.next,
                cause=finding.cause,
                ranks=finding.culprit_ranks,
            )

    def after_step(self, totals: StepTotals, *, position: Position, lr: float) -> str | None:
        """The name under which the run is to be saved now and kept, None mostly. Blocks.

        Raises EmberwardError R103, R115 or R117 on all ranks where the recipe says that the run stops.
        """
        if totals.is_finite:
            self._streak, self._is_streak_inspected = 0, False
        interval = self._recipe.health.drift_interval
        if self._copies is not None and interval is not None and position.step % interval == 0:
            for finding in self._copies.check(step=position.step, state=self._state_of(position, lr)):
                self._write(finding)
            self._end_phase(position.step)
        if self._spikes is None or not totals.is_finite:
            return None
        seen = self._spikes.see(step=position.step, loss=totals.loss, grad_norm=totals.grad_norm)
        return None if seen is None else self._on_spike(seen)

    def _on_spike(self, seen: SpikeSeen) -> str | None:
        if seen.turn is SpikeTurn.BEGAN:
            self._kept_step = self._keep_newest(f"before-spike-{seen.first_step}")
        finding = spike_finding(seen, save_before=self._kept_step)
        self._write(finding)
        if seen.turn is SpikeTurn.BEGAN and self._recipe.health.on_spike is SpikePolicy.STOP:
            raise EmberwardError(
                finding.message,
                code=finding.code,
                expected="a gradient norm and a loss at their usual level",
                found="; ".join(finding.evidence),
                next=finding.next,
            )
        return f"after-spike-{seen.first_step}" if seen.turn is SpikeTurn.OVER else None

    def _keep_newest(self, name: str) -> int | None:
        """The step of the newest save, which rank 0 gives a name so that it stays; None when there is none to keep."""
        newest = checkpoint.latest(self._folder.checkpoints)
        if newest is None:
            return None
        try:
            if self._engine.world.rank == 0:
                checkpoint.name_save(newest, name)
            return checkpoint.read_manifest(newest).step
        except (OSError, ValueError, EmberwardError):
            # A save that cannot be named, or has names enough, is not worth the run: the finding says none is kept.
            return None

    def _end_phase(self, step: int) -> None:
        if self._enter is not None:
            self._enter(Phase(step=step))

    def _state_of(self, position: Position, lr: float) -> dict[str, Any]:
        """What must be equal on all ranks beside tensors and generators, by the name that a person reads."""
        return {
            "step": position.step,
            "consumed samples": position.consumed_samples,
            "consumed tokens": position.consumed_tokens,
            "skipped steps": position.num_skipped,
            "learning rate": lr,
            **{name.replace("_", " "): value for name, value in self._engine.state().items()},
            "rewinds": [each.to_json() for each in self._detours],
        }

    def _write(self, finding: Finding) -> None:
        if self._engine.world.rank == 0:
            append_line(self._folder.findings, finding.to_json())

    # -- across attempts ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What a save holds of it, as JSON."""
        return {
            "spikes": None if self._spikes is None else self._spikes.state(),
            "kept_step": self._kept_step,
            "detours": [each.to_json() for each in self._detours],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave; says R106 when the save was made under rewinds that the run does not have."""
        known = [each.to_json() for each in self._detours]
        strange = [each for each in state.get("detours", ()) if each not in known]
        if strange:
            raise EmberwardError(
                "the save was made under a rewind that this run does not have",
                code="R106",
                where=str(self._folder.checkpoints),
                expected=f"{len(known)} rewinds of detours.json",
                found=Detour.from_json(strange[0]).text(),
                next="put the run's detours.json back as it was, or restore a save from before it",
            )
        spikes = state.get("spikes")
        if self._spikes is not None and spikes is not None:
            self._spikes.load_state(spikes)
            self._kept_step = state.get("kept_step")
