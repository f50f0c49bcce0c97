"""The training loop: steps, evaluations, saves and the end, the same decisions on every rank.

[Note: what ranks agree on]
Every decision that leads to a collective is a function of values that all ranks share: the step number, the recipe,
and the totals of the step's one all-reduce, which carries the count of ranks that were asked to stop. No rank acts on
a file, a clock or a signal of its own.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import torch

from emberward import checkpoint
from emberward.data import Batch, Tokenizer, eval_batches, open_tokenizer, step_indices
from emberward.engine import Engine, MicroBatch, StepTotals, World
from emberward.events import Phase, Stage
from emberward.files import anew
from emberward.health import Detour
from emberward.lanes import Lane, PrefetchLoader, lane
from emberward.layout import DataKind
from emberward.plan import BatchPlan, learning_rate
from emberward.rank._events import Enter, StepRecorder
from emberward.rank._health import Instruments, RunHealth
from emberward.rank._inspections import Inspections
from emberward.rank._metrics import rates
from emberward.rank._not_finite import not_finite_finding
from emberward.rank._position import Position
from emberward.rank._samples import Samples, SampleSet, eval_micro_batch, micro_batches
from emberward.rank._saves import Background, Saver
from emberward.rank._signals import StopRequest
from emberward.recipe import Recipe, StepLine
from emberward.report import RunFolder, Sinks, append_line, step_line, step_text, write_json

PROGRESS_INTERVAL_S = 0.5
_STAGES = {"eval": Stage.EVAL, "save": Stage.SAVE, "sample": Stage.EXIT, "done": Stage.EXIT}
PROMPT_TOKENS = 64
"""Of the held-out text that is continued at the end of a run."""


def data_lane(device: torch.device) -> Lane:
    """The lane that reads samples ahead and copies them to the device. What it has not read at the program's end
    nobody needs."""
    return lane("data", device=device, finishes_at_exit=False)


def _read_set(data: SampleSet, rows: Sequence[Sequence[int | None]], device: torch.device) -> list[MicroBatch]:
    """A rank's samples of an evaluation set on the device. Reads files."""
    return [eval_micro_batch(data.batch(indices), device) for indices in rows]


class RankOutcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    STOPPED = "stopped"


class Trainer:
    """One rank's part in a run. Every method must be called by all ranks together.

    `sinks` is set on the one rank that writes metrics, after `resume` has said from which step on; `is_heard` has that
    rank also write each step's line to standard output. `is_switched_off`: the run ended by its kill switch, on any
    host. `save` writes a checkpoint, as `checkpoint.save` does; `enter`
    is told the phases of the run; a dry run gives its own. `inspections`: what people ask of the running job.
    """

    def __init__(
        self,
        *,
        recipe: Recipe,
        batch: BatchPlan,
        engine: Engine,
        train: Samples,
        evals: Mapping[str, SampleSet],
        folder: RunFolder,
        stop: StopRequest,
        data_digest: str,
        peak_tflops: float | None,
        save: Callable[..., object] = checkpoint.save,
        background: Background | None = None,
        enter: Enter | None = None,
        detours: Sequence[Detour] = (),
        instruments: Instruments | None = None,
        inspections: Inspections | None = None,
    ) -> None:
        self.recipe = recipe
        self.batch = batch
        self.engine = engine
        self.position = Position()
        self._train = train
        self._evals = evals
        self._folder = folder
        self.sinks: Sinks | None = None
        self.is_heard = False
        self.is_switched_off = False
        self._stop = stop
        self._saver = Saver(
            recipe=recipe,
            engine=engine,
            folder=folder,
            data_digest=data_digest,
            write=save,
            background=background if recipe.save.background else None,
            next_batch=self._next_batch,
        )
        self._peak_tflops = peak_tflops
        self._enter = enter
        self._inspections = inspections
        # Torch 2.13 seeds each process by chance; what all ranks draw alike must begin alike.
        torch.manual_seed(recipe.seed)
        self._health = RunHealth(
            recipe=recipe, engine=engine, folder=folder, detours=detours, enter=enter, instruments=instruments
        )
        self._metrics = lane("metrics")
        self._last_lr = 0.0
        self._last_progress_s = 0.0
        self._losses: list[float | None] = []
        self._last_evals: dict[str, dict[str, float | None]] = {}
        self._train_seconds = 0.0
        self._train_tokens = 0
        world = engine.world
        self._recorder = StepRecorder(
            folder.events / f"rank{world.rank:05d}.jsonl",
            rank=world.rank,
            world_size=world.mesh.size,
            num_steps=recipe.log.events,
        )

    @property
    def world(self) -> World:
        """Where this rank sits."""
        return self.engine.world

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        assert self.recipe.steps is not None, "the recipe is not resolved"
        return self.recipe.steps

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> RankOutcome:
        """Trains from `position` to the end or until a stop is agreed on; saves at the end of either. Blocks."""
        try:
            return self._run()
        finally:
            self._metrics.join()
            if self._inspections is not None:
                self._inspections.close()

    def _run(self) -> RankOutcome:
        started_s = time.monotonic()
        outcome = RankOutcome.DONE
        depth = self.recipe.data.prefetch
        with PrefetchLoader(self._fetch, self._steps_to_do(), depth, lane=data_lane(self.world.device)) as loader:
            while self.position.step < self.steps:
                totals = self._one_step(loader)
                keep = self._health.after_step(totals, position=self.position, lr=self._last_lr)
                if self._is_due(self.recipe.evaluation.interval) and self.position.step < self.steps:
                    self.evaluate()
                if totals.num_stops:
                    outcome = RankOutcome.STOPPED
                    self.is_switched_off = totals.num_switches > 0
                    break
                if keep is not None or (self._is_due(self.recipe.save.interval) and self.position.step < self.steps):
                    self.save()
                if keep is not None:
                    self._saver.name_last(keep)
        if outcome is RankOutcome.DONE:
            self.evaluate()
        self.save(is_last=True)
        self._finish(outcome, time.monotonic() - started_s)
        return outcome

    def _is_due(self, interval: int | None) -> bool:
        return interval is not None and self.position.step % interval == 0

    def _steps_to_do(self) -> Iterator[Sequence[int]]:
        """The sample numbers of this rank's part of each step to come, one list a step."""
        consumed = self.position.consumed_samples
        for _ in range(self.position.step, self.steps):
            yield self._indices_at(consumed)
            consumed += self.batch.batch_at(consumed)

    def _indices_at(self, consumed: int) -> list[int]:
        """The sample numbers of this rank's part of the step that begins after `consumed` trained samples."""
        ranges = step_indices(
            consumed_samples=consumed + self._health.num_skipped_samples(consumed),
            global_batch=self.batch.batch_at(consumed),
            micro_batch=self.batch.micro_batch,
            dp=self.batch.dp,
            dp_rank=self.world.dp_rank,
        )
        return [index for indices in ranges for index in indices]

    def _fetch(self, indices: Sequence[int]) -> list[MicroBatch]:
        """The micro-batches of these samples on the device, their numbers alone on a rank that needs no data."""
        batch = self._train.batch(indices) if self.engine.needs_data else None
        return micro_batches(indices, batch, len(indices) // self.batch.micro_batch, self.world.device)

    # -- one step ----------------------------------------------------------------------------------------------------

    def _one_step(self, loader: Iterator[list[MicroBatch]]) -> StepTotals:
        self._stop.require_own_run()
        started_s = time.perf_counter()
        position = self.position
        size = self.batch.batch_at(position.consumed_samples)
        num_mb = self.batch.accumulation_at(position.consumed_samples)
        if self._enter is not None:
            self._enter(Phase(step=position.step), num_mb)
        parts = next(loader)
        data_s = time.perf_counter() - started_s
        lr = learning_rate(self.recipe.optim, position.consumed_samples + size, self._total_samples)
        lr = self._last_lr = lr * self._health.rate_factor(position)
        recorder = self._recorder if self._recorder.is_recording else None
        inspections = self._inspections
        totals = self.engine.train_step(
            parts,
            lr=lr,
            step=position.step,
            is_stopping=self._stop.is_set,
            is_switched_off=self._stop.is_switched_off,
            sink=recorder,
            judge=self._saver.judge_of(position),
            before_update=None if inspections is None else inspections.begin_step(self.engine, step=position.step + 1),
        )
        if inspections is not None:
            inspections.end_step(self.engine)
        self._saver.add_probe(totals)
        if recorder is not None:
            recorder.end_step()
        position.step += 1
        position.consumed_samples += size
        position.consumed_tokens += size * self.engine.model.sample.num_units
        position.num_skipped += not totals.is_finite
        step_s = time.perf_counter() - started_s
        self._train_seconds += step_s
        self._train_tokens += size * self.engine.model.sample.num_units
        self._log(totals, size=size, lr=lr, step_s=step_s, data_s=data_s)
        if not totals.is_finite:
            self._health.inspect(totals, parts, step=position.step - 1, lr=lr)
        return totals

    @property
    def _total_samples(self) -> int:
        assert self.recipe.train_samples is not None, "the recipe is not resolved"
        return self.recipe.train_samples

    def _log(self, totals: StepTotals, *, size: int, lr: float, step_s: float, data_s: float) -> None:
        position, saves = self.position, self._saver.figures()
        # A sum over ranks of which one was not finite is a number, and means nothing: say that there is none.
        loss = totals.loss if totals.is_finite else None
        self._losses.append(loss)
        if self.sinks is None:
            return
        finding = not_finite_finding(
            totals,
            step=position.step - 1,
            num_skipped=position.num_skipped,
            compute=self.recipe.precision.compute,
            loss_scale=self.engine.loss_scale.scale,
        )
        if finding is not None:
            append_line(self._folder.findings, finding.to_json())
        metrics = {
            "steps": self.steps,
            "consumed_samples": position.consumed_samples,
            "consumed_tokens": position.consumed_tokens,
            "loss": loss,
            "grad_norm": totals.grad_norm if totals.is_finite else None,
            "num_zeros": totals.num_zeros,
            "lr": lr,
            "global_batch_size": size,
            "loss_scale": self.engine.loss_scale.scale,
            "step_s": step_s,
            "data_s": data_s,
            **{f"{part}_s": seconds for part, seconds in self.engine.step_seconds.items()},
            **rates(
                self.engine.model,
                recompute=self.recipe.model.recompute,
                global_batch=size,
                step_s=step_s,
                num_ranks=self.world.mesh.size,
                peak_tflops=self._peak_tflops,
            ),
            **saves,
            "skipped": int(not totals.is_finite),
            "nan": int(not totals.is_finite),
        }
        self._metrics.submit(self._write_step, self.sinks, position.step, metrics)
        self._say("train")

    def _write_step(self, sinks: Sinks, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes down what is known of a step; on the metrics' lane."""
        sinks.log(step, metrics)
        if self.is_heard:
            shown = {"step": step, **metrics}
            is_long = self.recipe.log.step_line is StepLine.MEGATRON
            line = step_line(shown, steps=self.steps) if is_long else step_text(shown, steps=self.steps, left_s=None)
            sys.stdout.write(line + "\n")

    def _say(self, phase: str, detail: str | None = None, *, count: int | None = None) -> None:
        """Tells watchers what the ranks do now, of `count` micro-batches or tokens; training at most twice a second."""
        if self._enter is not None:
            self._enter(Phase(step=self.position.step, stage=_STAGES.get(phase), name=detail), count)
        if self.world.rank != 0:
            return
        now_s = time.monotonic()
        if phase == "train" and now_s - self._last_progress_s < PROGRESS_INTERVAL_S:
            return
        self._last_progress_s = now_s
        write_json(
            self._folder.progress,
            {
                "phase": phase,
                "step": self.position.step,
                "steps": self.steps,
                "detail": detail,
                "time_unix": time.time(),
            },
        )

    # -- evaluation, save, end ---------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, dict[str, float | None]]:
        """Mean loss in nats (None: not finite) and number of tokens of every set, by name, the same on every rank.

        All ranks run as many micro-batches, padded with weight 0, so that all end together. A lane reads the next set
        while one is evaluated.
        """
        started_s = time.perf_counter()
        size = self.recipe.evaluation.micro_batch or self.recipe.batch.micro_batch or 1
        found: dict[str, dict[str, float | None]] = {}
        sets = [
            (name, data, eval_batches(data.num_samples, self.world.dp_size, size).of_rank(self.world.dp_rank))
            for name, data in self._evals.items()
        ]
        reader, device = data_lane(self.world.device), self.world.device
        reading = [reader.submit(_read_set, data, rows, device) for _, data, rows in sets[:1]]
        for number, (name, _, rows) in enumerate(sets, start=1):
            parts = reading.pop().result()
            reading = [reader.submit(_read_set, data, rows, device) for _, data, rows in sets[number : number + 1]]
            self._say("eval", f"{name} ({number}/{len(self._evals)})", count=len(rows))
            if not rows:
                continue
            loss_sum, count = self.engine.evaluate(parts)
            loss = loss_sum / count if count else None
            found[name] = {"loss": loss if loss is None or math.isfinite(loss) else None, "tokens": count}
        self._last_evals = found
        if self.world.rank == 0:
            seconds = time.perf_counter() - started_s
            append_line(self._folder.evals, {"step": self.position.step, "sets": found, "seconds": seconds})
        self._say("train")
        return found

    def save(self, *, is_last: bool = False) -> None:
        """Saves the run at its position, unless that very save was made already.

        Beside the training where the recipe says so: then it blocks until the state is copied, with `is_last` until
        the save is whole; and raises K103 when that one fails.
        """
        self._metrics.join()  # a save that is whole has the lines of its steps
        if is_last:
            self._saver.finish()
        if not self._saver.has_saved(self.position):
            self._say("save", f"step {self.position.step}")
            self.position.health = self._health.state()
            self._saver.save(self.position)
        if is_last:
            # Not `has_saved`: after a failure that one rank alone saw, the others must still do the same.
            if not self._saver.is_resumed(self.position):
                self._saver.add_probe(self._measure())
            self._saver.finish(is_last=True)
            self._saver.close()
        self._say("train")

    def _measure(self) -> StepTotals:
        """The totals of the step that would come next; changes nothing. Blocks."""
        consumed = self.position.consumed_samples
        num_mb = self.batch.accumulation_at(consumed)
        if self._enter is not None:
            self._enter(Phase(step=self.position.step), num_mb)
        parts = self._fetch(self._indices_at(consumed))
        return self.engine.train_step(parts, lr=0.0, step=self.position.step, is_trial=True)

    def _next_batch(self, position: Position) -> tuple[int, int]:
        """The number of the first sample of the step that comes next, and how many samples it has."""
        consumed = position.consumed_samples
        return consumed + self._health.num_skipped_samples(consumed), self.batch.batch_at(consumed)

    def resume(self, *, is_unattended: bool = False) -> bool:
        """Takes up the newest whole save, if there is one; says whether it did. See `Saver.resume`."""
        if self._enter is not None:
            self._enter(Phase(stage=Stage.LOAD))
        position = self._saver.resume(is_unattended=is_unattended)
        if position is None:
            return False
        self.position = position
        if position.health is not None:
            self._health.load_state(position.health)
        return True

    def _finish(self, outcome: RankOutcome, seconds: float) -> None:
        """Writes how the attempt ended; rank 0 does, after all have generated the sample together."""
        sample: tuple[str, str, str] | None = None
        if outcome is RankOutcome.DONE and self.recipe.sample_tokens and self._writes_text:
            self._say("sample", count=self.recipe.sample_tokens)
            sample = self._sample()
        if self.world.rank != 0:
            return
        write_json(
            self._folder.summary,
            {
                "outcome": outcome.value,
                "is_switched_off": self.is_switched_off,
                "step": self.position.step,
                "steps": self.steps,
                "loss_first": self._losses[0] if self._losses else None,
                "loss_last": self._losses[-1] if self._losses else None,
                "evals": self._last_evals,
                "tokens_per_s": self._train_tokens / self._train_seconds if self._train_seconds else None,
                "seconds": seconds,
                "unit": self.engine.model.sample.unit,
                "samples": self.engine.model.sample.kind.value,
                "num_parameters": self.engine.num_parameters,
                "sample_prompt": None if sample is None else sample[0],
                "sample_source": None if sample is None else sample[1],
                "sample": None if sample is None else sample[2],
                "checkpoint": str(checkpoint.latest(self._folder.checkpoints)),
                "ranks": self._everyone(),
            },
        )
        self._say("done")

    @property
    def _writes_text(self) -> bool:
        return self.engine.model.sample.kind is DataKind.TOKENS

    def _sample(self) -> tuple[str, str, str]:
        """The prompt, where it is from, and what the model writes after it, the same on every rank."""
        tokenizer = open_tokenizer(self.recipe.data.tokenizer)
        text, source = self.recipe.sample_prompt, "sample_prompt"
        if text is None:
            text, source = self._held_out_text(tokenizer)
        prompt = [int(token) for token in tokenizer.encode(text)]
        ids = self.engine.generate(prompt, self.recipe.sample_tokens, seed=self.recipe.seed)
        return text, source, tokenizer.decode(ids[len(prompt) :])

    def _held_out_text(self, tokenizer: Tokenizer) -> tuple[str, str]:
        """The beginning of the first evaluation set, and its name; nothing without a set. Reads files."""
        for name, data in self._evals.items():
            if data.num_samples:
                first = data.batch([0])
                assert isinstance(first, Batch), "a model that writes text is evaluated on text"
                ids = first.tokens[0][: min(PROMPT_TOKENS, self.recipe.model.seq_len // 2)]
                return tokenizer.decode(int(token) for token in ids).strip(
                    "\ufffd"
                ), f"from {name}, held out of training"
        return "", "none: nothing was held out"

    def _everyone(self) -> list[dict[str, Any]]:
        return [
            json.loads(anew(partial(path.read_text, encoding="utf-8")))
            for path in sorted(self._folder.ranks.glob("rank*.json"))
        ]
