"""What lasts how long in a step that nobody observes, of what was observed. Pure.

[Note: observed and sampled time]
Observed steps are longer than the sampled ones by what torch's profiler and the probes take, and not evenly: some
microseconds an operation in the backward, more for each line of Python outside of it. So a span counts as its share of
the observed backward, or of the observed rest, times what that lasts in a sampled step. What occurs in every observed
step counts as in the middle one of them, for one step of five may last several times as long as the others by chance;
what does not, as its mean.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emberward.lens._operations import BACKWARD, RankOperations
from emberward.lens._samples import RankSamples, is_backward
from emberward.lens._spans import Spans, both, length_of, without


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """A part of all steps: how long it lasts in a sampled one, and its spans and their seconds in each observed one."""

    lasts_s: float
    steps: tuple[tuple[Spans, float], ...]

    def of(self, spans: Spans, num_steps: int | None) -> float:
        steps = self.steps[:num_steps]
        inside = [length_of(both(spans, own)) for own, _ in steps]
        if inside and all(inside):
            share = statistics.median(each / all_s for each, (_, all_s) in zip(inside, steps, strict=True))
        else:
            share = sum(inside) / (sum(all_s for _, all_s in steps) or 1.0)
        return share * self.lasts_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Of one rank. `step_s`, `backward_s`: of a sampled step; without samples, of an observed one."""

    step_s: float
    backward_s: float
    phases: tuple[_Phase, ...]

    def of(self, spans: Iterable[tuple[float, float]], num_steps: int | None = None) -> float:
        """Seconds a sampled step of what lies in any of these spans in the (first `num_steps`) observed ones."""
        known = sorted(spans)
        return sum(phase.of(known, num_steps) for phase in self.phases)


def pace_of(rank: RankOperations, sampled: RankSamples | None) -> Pace:
    """The pace of a rank. See [Note: observed and sampled time]."""
    steps = [*zip(rank.bounds_s, rank.bounds_s[1:], strict=False)]
    own = (op for op in rank.operations if op.thread == rank.main and op.name.startswith(BACKWARD))
    calls = [(op.began_s, op.ended_s) for op in own]
    backwards = [both(calls, [step]) for step in steps]
    rests = [without([step], calls) for step in steps]
    step_s = rank.step_s if sampled is None else sampled.measured_s / max(sampled.num_steps, 1)
    observed_s = sum(map(length_of, backwards)) / max(rank.num_steps, 1)
    backward_s = observed_s if sampled is None else backward_of(sampled)
    if not observed_s or not 0.0 < backward_s < step_s:
        # Nobody saw one of them: all of a step is one part.
        whole = _phase(step_s, [[step] for step in steps])
        return Pace(step_s=step_s, backward_s=whole.of(calls, None), phases=(whole,))
    phases = _phase(backward_s, backwards), _phase(step_s - backward_s, rests)
    return Pace(step_s=step_s, backward_s=backward_s, phases=phases)


def backward_of(rank: RankSamples) -> float:
    """Seconds a sampled step in backwards."""
    inside = (sampled for sampled in rank.stacks if is_backward(sampled))
    return sum(seconds for sampled in inside for seconds, _ in sampled.steps.values()) / max(rank.num_steps, 1)


def _phase(lasts_s: float, steps: Sequence[Spans]) -> _Phase:
    return _Phase(lasts_s=lasts_s, steps=tuple((own, length_of(own)) for own in steps))
