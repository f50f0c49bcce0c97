"""The judge against torch's pipeline simulator on what both can read: pipeline programs with sends and receives.

    python benchmarks/match_vs_torch.py

torch's `_simulate_comms_compute` (torch/distributed/pipelining/schedules.py) knows F, B and their sends and receives of
one pipeline, with sends that never wait. Ours is asked with sends of the same kind. Cases: right programs by size, and
programs with one fault. For each: what each side answers, and its time.
"""

import argparse
import contextlib
import io
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from torch.distributed.pipelining.schedules import _Action, _simulate_comms_compute

from emberward.events import Compute, Lane, LaneKind, Observer, Recv, Ref, Send, Trace, TraceBuilder, Wait
from emberward.match import UNBOUNDED, check
from emberward.plan import Pipe, Schedule, interleaved, one_f_one_b, pipeline_program

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

HOST = Lane(kind=LaneKind.HOST)
Program = list[list[str]]
_SEND = re.compile(r"(\d+)(SEND|RECV)_(F|B)(\d+)")
REPEATS = 5


def program_of(schedule: Schedule) -> Program:
    """Every rank's actions with their sends and receives, in torch's text."""
    pipe = Pipe.over(range(schedule.num_ranks))
    program: Program = []
    for rank in range(schedule.num_ranks):
        row: list[str] = []
        posted: dict[Ref, str] = {}
        for event in pipeline_program(schedule, pipe, rank):
            match event.body:
                case Compute(name=name):
                    row.append(name)
                case Send(tensor=str(tensor)):
                    row.append(_peer_text(tensor, "SEND", 0))
                case Recv(tensor=str(tensor)):
                    posted[event.ref] = _peer_text(tensor, "RECV", 1 if "F" in tensor else -1)
                case Wait(on=ref) if ref in posted:
                    # torch's simulator knows no posting: a receive stands where it is waited for.
                    row.append(posted[ref])
                case _:
                    continue
        program.append(row)
    return program


def _peer_text(tensor: str, verb: str, shift: int) -> str:
    stage, work, mb = re.fullmatch(r"(\d+)(F|B)(\d+)", tensor).groups()  # type: ignore[union-attr]
    return f"{int(stage) + shift}{verb}_{work}{mb}"


def trace_of(program: Program, num_ranks: int) -> Trace:
    """The same program for our judge: everything on the host's lane."""
    builder = TraceBuilder(world_size=num_ranks, observer=Observer.PLAN)
    for rank, row in enumerate(program):
        builder.observe(rank)
        for text in row:
            found = _SEND.fullmatch(text)
            if found is None:
                builder.add(rank, HOST, Compute(name=text))
                continue
            stage, verb, work, mb = int(found[1]), found[2], found[3], found[4]
            source = stage if verb == "SEND" else stage - 1 if work == "F" else stage + 1
            target = (stage + 1 if work == "F" else stage - 1) if verb == "SEND" else stage
            tensor = f"{source}{work}{mb}"
            body = (
                Send(peer=target % num_ranks, tag=2 * source, tensor=tensor)
                if verb == "SEND"
                else Recv(peer=source % num_ranks, tag=2 * source, tensor=tensor)
            )
            builder.add(rank, HOST, body)
    return builder.build()


def ask_torch(program: Program, num_ranks: int, num_stages: int) -> str:
    """torch's answer in one line."""
    order = {rank: [_Action.from_str(text) for text in row] for rank, row in enumerate(program)}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _simulate_comms_compute(order, lambda stage: stage % num_ranks, num_stages)
    except Exception as error:  # noqa: BLE001 (whatever it raises is its answer)
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return "passes"


def ask_judge(program: Program, num_ranks: int) -> str:
    """Our answer in one line."""
    verdict = check(trace_of(program, num_ranks), sends=UNBOUNDED, with_hazards=False)
    return verdict.outcome.value + "".join(f"; {f.code} {f.message}" for f in verdict.findings[:1])


def swapped(row: list[str], first: str, second: str) -> list[str]:
    """The row with two of its actions exchanged."""
    other = {first: second, second: first}
    return [other.get(text, text) for text in row]


def faults() -> dict[str, tuple[Program, int, int]]:
    """One pipeline of two ranks with one fault each."""
    right = program_of(one_f_one_b(2, 4))
    stuck = [["0F0", "0RECV_B0", "0SEND_F0", "0B0"], ["1RECV_F0", "1F0", "1B0", "1SEND_B0"]]
    return {
        "right": (right, 2, 2),
        "a send is missing": ([[t for t in right[0] if t != "0SEND_F2"], right[1]], 2, 2),
        "a receive is missing": ([right[0], [t for t in right[1] if t != "1RECV_F3"]], 2, 2),
        "each waits for the other": (stuck, 2, 2),
        "receives in another order than sends": ([right[0], swapped(right[1], "1RECV_F1", "1RECV_F2")], 2, 2),
    }


def seconds(call: Callable[[], object]) -> float:
    """Median of a few calls."""
    times = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - began_s)
    return statistics.median(times)


def main() -> None:
    """Prints and writes the comparison."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    options = parser.parse_args()
    answers = {
        name: {"torch": ask_torch(program, ranks, stages), "judge": ask_judge(program, ranks)}
        for name, (program, ranks, stages) in faults().items()
    }
    times = []
    for schedule in (one_f_one_b(8, 64), one_f_one_b(16, 128), interleaved(8, 64, 4)):
        program = program_of(schedule)
        ranks, stages = schedule.num_ranks, schedule.num_stages
        torch_s = seconds(lambda p=program, r=ranks, s=stages: ask_torch(p, r, s))  # type: ignore[misc]
        judge_s = seconds(lambda p=program, r=ranks: ask_judge(p, r))  # type: ignore[misc]
        times.append(
            {
                "schedule": f"{schedule.name} {ranks} ranks, {stages} stages, {schedule.num_mb} micro-batches",
                "torch_s": round(torch_s, 4),
                "judge_s": round(judge_s, 4),
                "torch_over_judge": round(torch_s / judge_s, 2),
            }
        )
    results = Results(
        "match_vs_torch",
        what="planted faults of schedules before torch's own simulator and before the judge: answers and seconds",
        measures=["src/emberward/match", "src/emberward/plan"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for name, found in answers.items():
        results.add(name, found)
    for row in times:
        results.add(str(row["schedule"]), row)
    results.summarise({"answers": answers, "times": times})


if __name__ == "__main__":
    main()
