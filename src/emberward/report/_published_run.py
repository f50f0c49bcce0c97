"""A published run as a value, and the run beside what `perf` predicts for it."""

from dataclasses import dataclass

from emberward.layout import Model
from emberward.perf import Cluster, Part, Prediction, Slot, StepPlan, predict
from emberward.plan import Schedule, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A published run: `step_s` or `tokens_per_s_per_rank`, whichever the source states."""

    name: str
    cluster: Cluster
    model: Model
    plan: StepPlan
    source: str
    step_s: float | None = None
    tokens_per_s_per_rank: float | None = None
    assumed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published run beside its prediction. `error` is predicted time over measured time, less 1."""

    run: PublishedRun
    prediction: Prediction
    measured_s: float

    @property
    def error(self) -> float:
        """Positive when the prediction is too slow."""
        return self.prediction.step_s / self.measured_s - 1


def slots_of(schedule: Schedule) -> tuple[tuple[Slot, ...], ...]:
    """A schedule's orders as `perf` takes them."""
    parts = {work: Part(work.value) for work in Work}
    return tuple(
        tuple(Slot(action.stage, parts[action.work], action.mb) for action in order) for order in schedule.orders
    )


def compare(run: PublishedRun) -> Comparison:
    """The run beside its prediction."""
    prediction = predict(run.model, run.cluster, run.plan)
    measured_s = run.step_s
    if measured_s is None:
        assert run.tokens_per_s_per_rank is not None, f"{run.name} states no figure"
        tokens = run.plan.global_batch * run.model.sample.num_units
        measured_s = tokens / (run.tokens_per_s_per_rank * run.plan.num_ranks)
    return Comparison(run=run, prediction=prediction, measured_s=measured_s)
