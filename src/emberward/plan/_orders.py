"""The built-in pipeline schedules: what each rank does in which order, as functions of the sizes alone.

The zero-bubble ones are torch's, action for action (torch/distributed/pipelining/schedules.py, 2.13), which tests hold
against it. docs/schedules.md has each one's idle time and memory.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from emberward.findings import ConfigError
from emberward.plan._schedule import Action, Schedule, Work

_Place = tuple[int, int]
"""(stage, micro-batch)."""


def _looped(rank: int, num_ranks: int, stages_per_rank: int) -> range:
    """The stages of a rank when stage s lies on rank s mod num_ranks."""
    return range(rank, num_ranks * stages_per_rank, num_ranks)


def gpipe(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """All forwards, then all backwards (Huang et al. 2019). With more stages a rank: looped, breadth first."""
    return _breadth_first("gpipe", num_ranks, num_mb, stages_per_rank, range(num_mb))


def looped_bfs(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """Breadth first (Lamy-Poirier 2022): as GPipe, with the backwards from the last micro-batch to the first."""
    return _breadth_first("looped_bfs", num_ranks, num_mb, stages_per_rank, range(num_mb - 1, -1, -1))


def _breadth_first(
    name: str, num_ranks: int, num_mb: int, stages_per_rank: int, backward_mbs: Sequence[int]
) -> Schedule:
    orders = []
    for rank in range(num_ranks):
        stages = _looped(rank, num_ranks, stages_per_rank)
        forwards = [Action(stage, Work.FORWARD, mb) for stage in stages for mb in range(num_mb)]
        backwards = [Action(stage, Work.BACKWARD, mb) for stage in reversed(stages) for mb in backward_mbs]
        orders.append((*forwards, *backwards))
    return Schedule(name=name, num_stages=num_ranks * stages_per_rank, num_mb=num_mb, orders=tuple(orders))


def one_f_one_b(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """Warm-up forwards, then one forward and one backward in turn (Narayanan et al. 2019, PipeDream-Flush)."""
    require_stages_per_rank("1f1b", stages_per_rank)
    orders = []
    for rank in range(num_ranks):
        warm = min(num_ranks - rank - 1, num_mb)
        orders.append(_alternate([(rank, mb) for mb in range(num_mb)], [(rank, mb) for mb in range(num_mb)], warm))
    return Schedule(name="1f1b", num_stages=num_ranks, num_mb=num_mb, orders=tuple(orders))


def interleaved(num_ranks: int, num_mb: int, stages_per_rank: int = 2) -> Schedule:
    """Interleaved 1F1B (Narayanan et al. 2021, section 2.2). `num_mb` must be a multiple of `num_ranks`."""
    if num_mb % num_ranks:
        legal = max(num_ranks, num_mb // num_ranks * num_ranks)
        raise ConfigError(
            "schedule interleaved needs whole rounds of micro-batches",
            code="C104",
            where="batch.accumulation",
            expected=f"a multiple of layout.pp={num_ranks}, e.g. {legal} or {legal + num_ranks}",
            found=str(num_mb),
        )
    orders = []
    for rank in range(num_ranks):
        stages = _looped(rank, num_ranks, stages_per_rank)
        forwards = list(_in_rounds(stages, num_mb, num_ranks))
        backwards = list(_in_rounds(stages[::-1], num_mb, num_ranks))
        warm = min((num_ranks - rank - 1) * 2 + (stages_per_rank - 1) * num_ranks, len(forwards))
        orders.append(_alternate(forwards, backwards, warm))
    return Schedule(name="interleaved", num_stages=num_ranks * stages_per_rank, num_mb=num_mb, orders=tuple(orders))


def _in_rounds(stages: Sequence[int], num_mb: int, round_size: int) -> Iterator[_Place]:
    """The stages in turn for one round of micro-batches after the other, as interleaved schedules run one direction."""
    for first in range(0, num_mb, round_size):
        for stage in stages:
            for mb in range(first, first + round_size):
                yield stage, mb


def _alternate(forwards: list[_Place], backwards: list[_Place], num_warm: int) -> tuple[Action, ...]:
    """`num_warm` forwards, then a forward and a backward in turn, then the backwards that are left."""
    order = [Action(stage, Work.FORWARD, mb) for stage, mb in forwards[:num_warm]]
    steady = len(forwards) - num_warm
    for index in range(len(backwards)):
        if index < steady:
            stage, mb = forwards[num_warm + index]
            order.append(Action(stage, Work.FORWARD, mb))
        stage, mb = backwards[index]
        order.append(Action(stage, Work.BACKWARD, mb))
    return tuple(order)


def zb_h1(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """ZB-H1 (Qi et al. 2023, section 2.2), interleaved with more stages a rank: the memory of 1F1B, a third of its idle
    time. `num_mb` must be cut into equal rounds of at least `num_ranks`, or be fewer than two of them."""
    require_micro_batches("zb_h1", num_ranks, num_mb)
    per_round = num_mb // max(1, num_mb // num_ranks)
    orders = []
    for rank in range(num_ranks):
        stages = _looped(rank, num_ranks, stages_per_rank)
        forwards = list(_in_rounds(stages, num_mb, per_round))
        backwards = list(_in_rounds(stages[::-1], num_mb, per_round))
        warm = min((stages_per_rank - 1) * per_round + num_ranks - rank - 1, len(forwards))
        orders.append(_with_late_weights(forwards, backwards, warm, num_late=rank))
    return Schedule(name="zb_h1", num_stages=num_ranks * stages_per_rank, num_mb=num_mb, orders=tuple(orders))


def _with_rounds(num_ranks: int, num_mb: int, step: int) -> Iterator[int]:
    """The numbers of micro-batches below or above `num_mb` that are cut into equal rounds, the nearest first."""
    for count in range(num_mb + step, num_mb + step * (num_ranks + num_mb), step):
        if count % max(1, count // num_ranks) == 0:
            yield count


def _with_late_weights(
    forwards: list[_Place], backwards: list[_Place], num_warm: int, *, num_late: int
) -> tuple[Action, ...]:
    """As `_alternate` with backwards in two parts, of which the weights' part comes `num_late` backwards later."""
    order: list[Action] = []
    late: deque[_Place] = deque()
    for action in _alternate(forwards, backwards, num_warm):
        if action.work is Work.FORWARD:
            order.append(action)
            continue
        order.append(Action(action.stage, Work.INPUT, action.mb))
        late.append((action.stage, action.mb))
        if len(late) > num_late:
            stage, mb = late.popleft()
            order.append(Action(stage, Work.WEIGHT, mb))
    return (*order, *(Action(stage, Work.WEIGHT, mb) for stage, mb in late))


@dataclass(slots=True)
class _V:
    """Writes the order of a rank that holds the stages r (chunk 0) and 2 p - 1 - r (chunk 1): down, then up again.

    Each method takes the next micro-batch of its kind of work.
    """

    stages: tuple[int, int]
    order: list[Action] = field(default_factory=list)
    pairs: set[tuple[Action, Action]] = field(default_factory=set)
    late: deque[_Place] = field(default_factory=deque)
    """Inputs' parts whose weights' part has not come, oldest first."""
    done: Counter[tuple[int, bool]] = field(default_factory=Counter)
    """Forwards, and backwards whole or begun, of each chunk."""

    def forward(self, chunk: int) -> Action:
        return self._next(chunk, Work.FORWARD)

    def backward(self, chunk: int) -> Action:
        return self._next(chunk, Work.BACKWARD)

    def input(self, chunk: int) -> None:
        action = self._next(chunk, Work.INPUT)
        self.late.append((action.stage, action.mb))

    def weight(self, chunk: int | None = None) -> None:
        """The oldest part that is due, of one chunk where one is given; nothing when none is."""
        due = next((each for each in self.late if chunk is None or each[0] == self.stages[chunk]), None)
        if due is not None:
            self.late.remove(due)
            self.order.append(Action(due[0], Work.WEIGHT, due[1]))

    def both(self, forward_chunk: int, backward_chunk: int) -> None:
        """A forward and a backward that may run at once."""
        self.pairs.add((self.forward(forward_chunk), self.backward(backward_chunk)))

    def num_forwards(self, chunk: int) -> int:
        return self.done[chunk, True]

    def _next(self, chunk: int, work: Work) -> Action:
        key = (chunk, work is Work.FORWARD)
        action = Action(self.stages[chunk], work, self.done[key])
        self.done[key] += 1
        self.order.append(action)
        return action


def _v(
    name: str, num_ranks: int, num_mb: int, stages_per_rank: int, write: Callable[[_V, int, int, int], None]
) -> Schedule:
    """A schedule over the stage map of a V, each order written by `write`; actions beyond `num_mb` are left out."""
    require_stages_per_rank(name, stages_per_rank)
    ranks = tuple(range(num_ranks))
    orders, pairs = [], set()
    for rank in ranks:
        writer = _V((rank, 2 * num_ranks - 1 - rank))
        write(writer, rank, num_ranks, num_mb)
        orders.append(tuple(action for action in writer.order if action.mb < num_mb))
        pairs |= writer.pairs
    return Schedule(
        name=name,
        num_stages=2 * num_ranks,
        num_mb=num_mb,
        orders=tuple(orders),
        stage_ranks=(*ranks, *reversed(ranks)),
        pairs=frozenset(pairs),
    )


def zb_v(num_ranks: int, num_mb: int, stages_per_rank: int = 2) -> Schedule:
    """ZB-V (Qi et al. 2024): with equal parts no idle time but the skew of the start, in the memory of 1F1B.

    Below 2 p - 1 micro-batches it is that many, of which the last are left out.
    """
    return _v("zb_v", num_ranks, num_mb, stages_per_rank, _write_zb_v)


def _write_zb_v(v: _V, rank: int, num_ranks: int, num_mb: int) -> None:
    num_mb = max(2 * num_ranks - 1, num_mb)

    def whole(chunk: int) -> None:
        v.input(chunk)
        v.weight(chunk)

    for _ in range(2 * (num_ranks - rank) - 1):
        v.forward(0)
    for _ in range(rank):
        v.forward(1)
        v.forward(0)
    for _ in range(num_ranks - rank):
        v.forward(1)
        whole(1)
    while v.num_forwards(1) < num_mb:
        if v.num_forwards(0) < num_mb:
            v.forward(0)
        whole(0)
        v.forward(1)
        whole(1)
    for _ in range(rank):
        v.input(0)
        v.input(1)
    for _ in range(num_ranks - rank):
        v.input(0)
        v.weight(0)
    for chunk in (1, 0):
        while any(stage == v.stages[chunk] for stage, _ in v.late):
            v.weight(chunk)


def dualpipe_v(num_ranks: int, num_mb: int, stages_per_rank: int = 2) -> Schedule:
    """DualPipeV (DeepSeek-AI 2025, github.com/deepseek-ai/DualPipe): a forward beside each backward of the steady part.

    `num_mb` must be at least 2 `num_ranks`.
    """
    require_micro_batches("dualpipe_v", num_ranks, num_mb)
    return _v("dualpipe_v", num_ranks, num_mb, stages_per_rank, _write_dualpipe_v)


def _write_dualpipe_v(v: _V, rank: int, num_ranks: int, num_mb: int) -> None:
    later = num_ranks - rank - 1
    for _ in range(2 * later):
        v.forward(0)
    for _ in range(rank + 1):
        v.forward(0)
        v.forward(1)
    for _ in range(later):
        v.input(1)
        v.weight()
        v.forward(1)
    for index in range(num_mb - 2 * num_ranks + rank + 1):
        if index == 0 and later == 0:
            v.forward(0)
            v.backward(1)
        else:
            v.both(0, 1)
        v.both(1, 0)
    for _ in range(later):
        v.backward(1)
        v.both(1, 0)
    # Of the last 2 (rank + 1) backwards the second half is split.
    for index in range(2 * (rank + 1)):
        (v.backward if index <= rank else v.input)(1 - index % 2)
    for _ in range(later):
        v.weight()
        v.input(0)
    while v.late:
        v.weight()


def forward_only(schedule: Schedule, num_mb: int) -> Schedule:
    """Forwards alone over the stage map of `schedule`, as evaluation and sampling run them: breadth first."""
    orders = tuple(
        tuple(Action(stage, Work.FORWARD, mb) for stage in schedule.stages_of(rank) for mb in range(num_mb))
        for rank in range(schedule.num_ranks)
    )
    return Schedule(
        name="forward_only",
        num_stages=schedule.num_stages,
        num_mb=num_mb,
        orders=orders,
        stage_ranks=schedule.stage_ranks,
    )


SCHEDULES: dict[str, Callable[[int, int, int], Schedule]] = {
    "gpipe": gpipe,
    "looped_bfs": looped_bfs,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb_h1": zb_h1,
    "zb_v": zb_v,
    "dualpipe_v": dualpipe_v,
}

STAGES_PER_RANK = {"1f1b": 1, "zb_v": 2, "dualpipe_v": 2}
"""The only number of stages a rank with which a schedule works, for those that have one."""


def require_stages_per_rank(name: str, stages_per_rank: int) -> None:
    """Raises ConfigError C104 when the schedule needs another number of stages a rank."""
    needed = STAGES_PER_RANK.get(name, stages_per_rank)
    if needed != stages_per_rank:
        raise ConfigError(
            f"schedule {name} holds {'one stage' if needed == 1 else 'two stages'} a rank",
            code="C104",
            where="layout.stages_per_rank",
            expected=str(needed),
            found=str(stages_per_rank),
            next="schedule=interleaved" if name == "1f1b" else f"layout.stages_per_rank={needed}",
        )


def require_micro_batches(name: str, num_ranks: int, num_mb: int) -> None:
    """Raises ConfigError C104 when zb_h1 or dualpipe_v cannot run a step of `num_mb` micro-batches."""
    num_rounds = max(1, num_mb // num_ranks)
    if name == "zb_h1" and num_mb % num_rounds:
        below, above = (next(_with_rounds(num_ranks, num_mb, step)) for step in (-1, 1))
        raise ConfigError(
            "schedule zb_h1 needs equal rounds of micro-batches",
            code="C104",
            where="batch.accumulation",
            expected=f"a multiple of {num_rounds} for {num_rounds} rounds of layout.pp={num_ranks}, "
            f"e.g. {below} or {above}",
            found=str(num_mb),
        )
    if name == "dualpipe_v" and num_mb < 2 * num_ranks:
        raise ConfigError(
            "schedule dualpipe_v needs two micro-batches for each pipeline rank",
            code="C104",
            where="batch.accumulation",
            expected=f"at least 2 x layout.pp = {2 * num_ranks}",
            found=str(num_mb),
            next="schedule=zb_v",
        )
