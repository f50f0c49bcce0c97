"""What a use of a lane costs beside a thread pool's, whether its memory is flat, and three stalls before and after.

    python benchmarks/lanes.py [--uses 999999] [--steps 100]

Cost: rounds of a lane and of ``concurrent.futures.ThreadPoolExecutor`` with one thread take turns; processor time of
the process for submit and result of an empty function and of one with a tensor, and of the caller's thread for the
submit alone. Memory: the resident size over so many uses: tasks, results that are used, and blocks. Stalls (a loss that
is printed each step, metrics of an evaluation, a checkpoint's host copy): a device whose operations are timed waits in
one queue, and a host that takes time to issue a step; the time of a step without the read, with it on the main thread,
and with it on a lane. Lanes and threads are real; what no processor does here is the device's work.
"""

import argparse
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import torch

from emberward import lanes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

ROUNDS, CALLS, BURST = 15, 2_000, 50
HOST_S, FORWARD_S, BACKWARD_S = 0.010, 0.005, 0.010
"""What the host takes to issue a step, and the device for its two parts."""
EVAL_EVERY, EVAL_BATCHES, SAVE_EVERY, COPY_S, WRITE_S = 10, 8, 10, 0.010, 0.060


def identity(value: Any) -> Any:
    """The work of a use."""
    return value


def cost_us(submit: Callable[..., Any], value: Any) -> dict[str, float]:
    """Microseconds a use: of the process for submit and result, of the caller for the submit alone."""
    began_ns = time.process_time_ns()
    for _ in range(CALLS):
        submit(identity, value).result()
    both = (time.process_time_ns() - began_ns) / CALLS / 1e3
    spent_ns = 0
    for _ in range(CALLS // BURST):
        began_ns = time.thread_time_ns()
        given = [submit(identity, value) for _ in range(BURST)]
        spent_ns += time.thread_time_ns() - began_ns
        given[-1].result()
    return {"submit_and_result_us": both, "submit_us": spent_ns / CALLS / 1e3}


def costs() -> dict[str, Any]:
    """Medians over rounds in which lane and pool take turns, and of their differences."""
    lane, tensor = lanes.lane("bench"), torch.zeros(4)
    rows: dict[str, list[dict[str, float]]] = {"pool": [], "lane": [], "lane, a tensor": []}
    with ThreadPoolExecutor(1) as pool:
        cost_us(pool.submit, 1)
        cost_us(lane.submit, 1)
        for _ in range(ROUNDS):
            rows["pool"].append(cost_us(pool.submit, 1))
            rows["lane"].append(cost_us(lane.submit, 1))
            rows["lane, a tensor"].append(cost_us(lane.submit, tensor))
    lane.close()
    found: dict[str, Any] = {
        name: {key: round(statistics.median(row[key] for row in each), 2) for key in each[0]}
        for name, each in rows.items()
    }
    for name in ("lane", "lane, a tensor"):
        pairs = zip(rows[name], rows["pool"], strict=True)
        extra = [{key: mine[key] - other[key] for key in mine} for mine, other in pairs]
        found[f"{name}, beyond the pool"] = {
            key: round(statistics.median(row[key] for row in extra), 2) for key in extra[0]
        }
    return found


def memory(num_uses: int) -> dict[str, Any]:
    """Resident MiB at the begin (after a tenth of the uses), and the greatest later."""
    process, lane, tensor = psutil.Process(), lanes.lane("flat"), torch.zeros(256)
    first = greatest = 0
    for use in range(num_uses):
        kind = use % 3
        if kind == 0:
            lane.submit(torch.sum, tensor)
        elif kind == 1:
            lane.submit(torch.sum, tensor).result()
        else:
            with lanes.lane("flat"):
                tensor.sum()
        if use % 10_000 == 0 and use >= num_uses // 10:
            resident = process.memory_info().rss
            first = first or resident
            greatest = max(greatest, resident)
    threads = process.num_threads()
    lane.close()
    mib = 1 << 20
    return {"uses": num_uses, "first_mib": round(first / mib, 1), "greatest_mib": round(greatest / mib, 1),
            "threads": threads}  # fmt: skip


class Device:
    """A queue of operations that take their time, one after the other, as a device's stream does."""

    def __init__(self) -> None:
        self._operations: queue.SimpleQueue[tuple[float, threading.Event] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def launch(self, seconds: float) -> threading.Event:
        """Queues an operation; the event is set when it is done. Does not block."""
        done = threading.Event()
        self._operations.put((seconds, done))
        return done

    def close(self) -> None:
        self._operations.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (operation := self._operations.get()) is not None:
            time.sleep(operation[0])
            operation[1].set()


Way = Callable[..., Any]
"""Calls its first argument with the others, on the main thread or on a lane."""


def here(function: Callable[..., Any], *args: Any) -> None:
    """On the main thread."""
    function(*args)


def nowhere(function: Callable[..., Any], *args: Any) -> None:
    """Not at all."""


def step_ms(extra: Callable[[Device, int, threading.Event], None], num_steps: int) -> float:
    """Milliseconds a step of a loop in which `extra` is called after each backward."""
    device = Device()
    began_s = time.perf_counter()
    for step in range(num_steps):
        time.sleep(HOST_S)
        loss = device.launch(FORWARD_S)
        last = device.launch(BACKWARD_S)
        extra(device, step, loss)
    last.wait()
    spent_s = time.perf_counter() - began_s
    device.close()
    return spent_s / num_steps * 1e3


def logging(way: Way, *, waits_for_all: bool) -> Callable[[Device, int, threading.Event], None]:
    """A loss that is read and written each step; the main stream's read waits for all that the device holds."""

    def extra(device: Device, step: int, loss: threading.Event) -> None:
        way((device.launch(0.0) if waits_for_all else loss).wait)

    return extra


def evaluating(way: Way) -> Callable[[Device, int, threading.Event], None]:
    """Metrics of some batches now and then, each read by the host."""

    def extra(device: Device, step: int, loss: threading.Event) -> None:
        if step % EVAL_EVERY == EVAL_EVERY - 1:
            for _ in range(EVAL_BATCHES):
                time.sleep(HOST_S / 2)
                way(device.launch(FORWARD_S).wait)

    return extra


def saving(way: Way) -> Callable[[Device, int, threading.Event], None]:
    """A copy of the state to the host now and then, and its write."""

    def extra(device: Device, step: int, loss: threading.Event) -> None:
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            way(write, device.launch(COPY_S))

    return extra


def write(copied: threading.Event) -> None:
    """Waits for the copy and takes the time of a file."""
    copied.wait()
    time.sleep(WRITE_S)


def stalls(num_steps: int) -> dict[str, Any]:
    """For each stall the step without it, with it on the main thread, and on a lane."""
    lane = lanes.lane("reads")
    cases: dict[str, Callable[[Way, bool], Any]] = {
        "a loss each step": lambda way, is_lane: logging(way, waits_for_all=not is_lane),
        "metrics of an evaluation": lambda way, is_lane: evaluating(way),
        "a checkpoint's host copy": lambda way, is_lane: saving(way),
    }
    found = {}
    for name, made in cases.items():
        without = step_ms(made(nowhere, True), num_steps)
        before = step_ms(made(here, False), num_steps)
        after = step_ms(made(lane.submit, True), num_steps)
        lane.join()
        found[name] = {
            "without_ms": round(without, 2),
            "main_thread_ms": round(before, 2),
            "lane_ms": round(after, 2),
            "stall_left": round(max(0.0, after - without) / (before - without), 3),
            "before_over_after": round(before / after, 2),
        }
    lane.close()
    return found


def main() -> None:
    """Measures all and writes docs/measured/lanes.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uses", type=int, default=999_999)
    parser.add_argument("--steps", type=int, default=100)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(
        "lanes",
        what="a use of a lane beside a thread pool's, memory over many uses, three stalls on a device of timed waits",
        measures=["src/emberward/lanes", "benchmarks/lanes.py"],
        settings={"uses": options.uses, "steps": options.steps},
        is_fresh=options.fresh,
        folder=options.into,
    )
    figures = {"cost": costs(), "stalls": stalls(options.steps), "memory": memory(options.uses)}
    results.add("all", figures)
    results.summarise(figures)


if __name__ == "__main__":
    main()
