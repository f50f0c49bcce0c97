"""Idle time and memory of every schedule, planned beside measured, with stages whose compute is a timed wait.

    python benchmarks/schedules.py [--steps 3] [--part-ms 120]

The executor runs each schedule's programs on 4 ranks over gloo. A stage waits where a model would compute, so that the
processors of the machine do not matter, and holds an object where a model would hold activations, so that what the
executor keeps and when it lets go is counted. Idle time: the share of the ranks' time, from the first compute to the
last, in which none of their computes ran.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from steps import start_ranks
from torch import Tensor, nn

from emberward.engine import build_world
from emberward.engine._executor import Executor, Feed
from emberward.events import Compute, Event
from emberward.layout import Axis, Mesh
from emberward.perf import Part, run_schedule
from emberward.plan import SCHEDULES, Pipe, Schedule, peak_bytes, pipeline_program
from emberward.report import slots_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

RANKS, MICRO_BATCHES = 4, 12
SHAPE = (1, 8)


class Held:
    """What a stage holds for a micro-batch; `now` and `most` count how many are alive."""

    now = most = 0

    def __init__(self) -> None:
        Held.now += 1
        Held.most = max(Held.most, Held.now)

    def __del__(self) -> None:
        Held.now -= 1


class WaitingQueue:
    """A queue of weights' products whose run waits."""

    def __init__(self, part_s: float) -> None:
        self.part_s, self.open, self.held = part_s, False, {}

    @contextmanager
    def collecting(self, stage: int, mb: int) -> Iterator[None]:
        self.open = True
        yield
        self.held[stage, mb] = self.open
        self.open = False

    def run(self, stage: int, mb: int) -> None:
        time.sleep(self.part_s)
        del self.held[stage, mb]

    def clear(self) -> None:
        self.held.clear()


class _Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, queue: WaitingQueue) -> Tensor:
        time.sleep(queue.part_s)
        ctx.queue, ctx.held = queue, Held()
        return x + weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        queue, held = ctx.queue, ctx.held
        ctx.held = None
        if queue.open:
            queue.open = held
        time.sleep(queue.part_s * (1 if queue.open else 2))
        return grads[0], grads[0], None


class WaitingStage(nn.Module):
    """Waits for a forward, and twice or once in the backward."""

    def __init__(self, queue: WaitingQueue) -> None:
        super().__init__()
        self.queue = queue
        self.weight = nn.Parameter(torch.zeros(SHAPE))

    def forward(self, x: Tensor, draws: object = None) -> Tensor:
        return _Waits.apply(x, self.weight, self.queue)


class _Spans:
    """The times of computes."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def put(self, event: Event) -> None:
        if isinstance(event.body, Compute):
            self.spans.append((event.started_ns, event.completed_ns))


def planned(schedule: Schedule) -> tuple[float, list[float]]:
    """(idle share, micro-batches kept by each rank over all its layers)."""
    timeline = run_schedule(
        slots_of(schedule),
        cost_s=lambda slot: 2.0 if slot.part is Part.BACKWARD else 1.0,
        transfer_s=lambda _: 0.0,
        is_blocking=False,
    )
    chunks = schedule.num_stages // schedule.num_ranks
    ones = [1] * schedule.num_stages
    return timeline.bubble, [peak_bytes(schedule, rank, ones) / chunks for rank in range(schedule.num_ranks)]


def measure(name: str, chunks: int, steps: int, part_ms: float) -> dict[str, Any]:
    """The figures of one schedule; the same on every rank."""
    schedule = SCHEDULES[name](RANKS, MICRO_BATCHES, chunks)
    mesh = Mesh(axes=((Axis.PP, RANKS), (Axis.DP_SHARD, 1)))
    ends = (schedule.stage_ranks[0], schedule.stage_ranks[-1])
    world = build_world(mesh, device=torch.device("cpu"), timeout_s=300, ends=ends)
    queue = WaitingQueue(part_ms / 1000 / chunks)
    stages = {stage: WaitingStage(queue) for stage in schedule.stages_of(world.rank)}
    executor = Executor(stages, schedule.num_stages, world, transfer_dtype=torch.float32)
    pipe = Pipe.over(world.pipe_ranks, mesh=mesh, dtype="float32", shapes=(SHAPE,) * (schedule.num_stages - 1))
    program = pipeline_program(schedule, pipe, world.rank)
    feed = Feed(
        inputs=[torch.zeros(SHAPE) for _ in range(MICRO_BATCHES)],
        loss=lambda mb, output: output.sum(),
        late=queue,
    )
    shares = []
    for step in range(steps + 1):
        Held.most = Held.now = 0
        spans = _Spans()
        dist.barrier()
        executor.run(program, feed, sink=spans)
        all_spans: list[Any] = [None] * RANKS
        dist.all_gather_object(all_spans, (spans.spans, Held.most))
        ends_ns = [end for each, _ in all_spans for _, end in each]
        starts_ns = [start for each, _ in all_spans for start, _ in each]
        busy_ns = sum(end - start for each, _ in all_spans for start, end in each)
        if step > 0:
            shares.append(1 - busy_ns / (RANKS * (max(ends_ns) - min(starts_ns))))
    idle, kept = planned(schedule)
    found = [most / chunks for _, most in all_spans]
    return {
        "schedule": name,
        "stages_per_rank": chunks,
        "ranks": RANKS,
        "micro_batches": MICRO_BATCHES,
        "part_ms": part_ms,
        "idle_planned": round(idle, 4),
        "idle_measured_median": round(statistics.median(shares), 4),
        "idle_measured": [round(share, 4) for share in shares],
        "kept_planned": kept,
        "kept_measured": found,
    }


def main() -> None:
    """Starts the ranks, or is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--part-ms", type=float, default=120.0)
    add_options(parser)
    options = parser.parse_args()
    start_ranks(RANKS)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    one, two = {"1f1b": 1}, {"interleaved": 2, "zb_v": 2, "dualpipe_v": 2, "looped_bfs": 2}
    cases = [(name, {**one, **two}.get(name, 1)) for name in SCHEDULES] + [("zb_h1", 2)]
    rows = [measure(name, chunks, options.steps, options.part_ms) for name, chunks in cases]
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank != 0:
        return
    results = Results(
        "schedules",
        what="idle time and kept micro-batches of each schedule, planned and measured with stages that wait",
        measures=["src/emberward/plan", "src/emberward/engine/_executor.py"],
        settings={"steps": options.steps, "part_ms": options.part_ms},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for row in rows:
        results.add(f"{row['schedule']} x{row['stages_per_rank']}", row)
    worst = max(row["idle_measured_median"] - row["idle_planned"] for row in rows)
    results.summarise(
        {
            "idle": {
                f"{row['schedule']} x{row['stages_per_rank']}": [row["idle_planned"], row["idle_measured_median"]]
                for row in rows
            },
            "worst_idle_difference": round(worst, 4),
            "kept_as_planned": all(row["kept_planned"] == row["kept_measured"] for row in rows),
        }
    )


if __name__ == "__main__":
    main()
