"""What it costs a rank to hold each call to the certificate: per call, and as a share of a step.

    python benchmarks/certificate_overhead.py [--steps 40]

Per call: all-reduces on a group without peers, with and without the watch, in processor time, the least of several
rounds; so too in a process with a recorder, whose wrapper asks the watch. A step: bloom_tiny on 2 ranks (dp 2) over
gloo; in the same processes steps with the watch take turns with steps without, so that the machine's noise falls on
both.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from emberward.cli._prove import prove_recipe
from emberward.data import open_tokenizer
from emberward.engine import Engine, MicroBatch, build_world
from emberward.events import Phase
from emberward.recipe import Resolved, load_recipe, mesh_of, resolve
from emberward.sources import Certificate, Departure, Guard, ProgramWriter
from emberward.sources._calls import bodies_of
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._wrap import wrap_everything
from emberward.sources.fake_world import fake_world
from emberward.sources.recorder import Recorder
from emberward.sources.ring import RingWriter, identity_here
from emberward.sources.watch import CallWatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

RANKS, WARM_UP = 2, 4
NUM_CALLS, NUM_ROUNDS = 10_000, 9
LAYOUT = ("layout.dp=2", "layout.tp=1", "layout.pp=1")


def departed(departure: Departure) -> None:
    """A benchmark that departs measures nothing."""
    raise RuntimeError(f"expected {departure.expected_text}; found {departure.found_text}")


def least_us(work: Callable[[], object], times: int) -> float:
    """Processor time of `times` units of work, a unit in microseconds."""
    began_ns = time.process_time_ns()
    work()
    return (time.process_time_ns() - began_ns) / times / 1e3


def per_call() -> dict[str, float]:
    """Microseconds a call, the least of NUM_ROUNDS."""
    rounds: dict[str, list[float]] = defaultdict(list)
    with fake_world(0, 8):
        tensor, group = torch.zeros(1024), Recorder(None).group_of(dist.group.WORLD)
        arguments = ([tensor], dist.AllreduceOptions())
        (body,), _ = bodies_of("allreduce", group, arguments, {})
        writer = ProgramWriter(0)
        writer.segment("setup", None, [])
        writer.segment("step", NUM_CALLS, [(body, None, Phase())] * NUM_CALLS)
        program = writer.program()

        def calls() -> None:
            for _ in range(NUM_CALLS):
                dist.all_reduce(tensor)

        def words() -> None:
            for _ in range(NUM_CALLS):
                bodies_of("allreduce", group, arguments, {})

        def compare(made: Guard) -> None:
            for _ in range(NUM_CALLS):
                made.issue(0)

        def guard() -> Guard:
            made = Guard(program, rank=0, find_site=lambda: None, on_departure=departed)
            made.begin(Phase(step=0), NUM_CALLS)
            return made

        def watched() -> float:
            with CallWatch(guard()).recording():
                return least_us(calls, NUM_CALLS)

        for _ in range(NUM_ROUNDS):
            rounds["without"].append(least_us(calls, NUM_CALLS))
            rounds["with"].append(watched())
            rounds["comparison"].append(least_us(functools.partial(compare, guard()), NUM_CALLS))
            rounds["words"].append(least_us(words, NUM_CALLS))
        with tempfile.TemporaryDirectory() as folder:
            # For good, and so last: the recorder's wrappers stay on in this process.
            writer_of_ring = RingWriter(Path(folder) / "ring", identity_here(rank=0, world_size=8, local_rank=0))
            CURRENT.live = LiveRecorder(writer_of_ring)
            wrap_everything(CURRENT.live)
            for _ in range(NUM_ROUNDS):
                rounds["recorded"].append(least_us(calls, NUM_CALLS))
                rounds["recorded and watched"].append(watched())
            CURRENT.live = None
    least = {name: min(values) for name, values in rounds.items()}
    return {
        "call_without_us": least["without"],
        "added_by_the_watch_us": least["with"] - least["without"],
        "added_by_the_recorder_us": least["recorded"] - least["without"],
        "added_by_the_watch_within_the_recorder_us": least["recorded and watched"] - least["recorded"],
        "of_it_comparison_and_hash_us": least["comparison"],
        "what_words_for_each_call_would_cost_us": least["words"],
    }


def resolved_recipe() -> Resolved:
    """The tiny preset on two ranks."""
    loaded = load_recipe("bloom_tiny", LAYOUT)
    return resolve(loaded, num_ranks=RANKS, tokenizer_size=open_tokenizer("byte").size)


def step_ratio(steps: int, certificate: Certificate) -> dict[str, Any] | None:
    """Steps with and without the watch, as rank 0 sees them."""
    resolved = resolved_recipe()
    recipe, rank = resolved.recipe, int(os.environ["RANK"])
    dist.init_process_group("gloo")
    guard = Guard(certificate.role(rank), rank=rank, find_site=lambda: None, on_departure=departed)
    watch = CallWatch(guard)
    with watch.recording():
        world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=120)
    engine, num_mb = Engine(recipe, world), resolved.batch.accumulation_at(0)
    size, length = recipe.batch.micro_batch or 1, recipe.model.seq_len
    tokens = torch.zeros((size, length), dtype=torch.int64)
    batches = [MicroBatch(inputs=tokens, labels=tokens, weights=torch.ones((size, length)))] * num_mb
    wall: dict[bool, list[float]] = {True: [], False: []}
    processor: dict[bool, list[float]] = {True: [], False: []}
    num_calls = 0
    for step in range(2 * (steps + WARM_UP)):
        is_watched = (step % 2 == 0) == (step // 2 % 2 == 0)
        guard.begin(Phase(step=step), num_mb if is_watched else None)
        before = guard.position
        began_s, began_ns = time.perf_counter(), time.process_time_ns()
        if is_watched:
            with watch.recording():
                engine.train_step(batches, lr=1e-3, step=step)
            num_calls = guard.position - before
        else:
            engine.train_step(batches, lr=1e-3, step=step)
        if step >= 2 * WARM_UP:
            wall[is_watched].append(time.perf_counter() - began_s)
            processor[is_watched].append((time.process_time_ns() - began_ns) / 1e9)
    dist.destroy_process_group()
    if rank != 0:
        return None
    ratios = [one / other for one, other in zip(wall[True], wall[False], strict=True)]
    return {
        "layout": "dp 2, bloom_tiny, gloo",
        "num_paired_steps": steps,
        "num_calls_a_step": num_calls,
        "step_s_median": statistics.median(wall[False]),
        "wall_ratio_median_of_pairs": statistics.median(ratios),
        "processor_time_ratio": statistics.median(processor[True]) / statistics.median(processor[False]),
    }


def main() -> None:
    """Proves the recipe and starts the ranks, or is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    add_options(parser)
    parser.add_argument("--certificate", type=Path, help="of a rank: made by the parent")
    options = parser.parse_args()
    if "RANK" in os.environ:
        data = json.loads(options.certificate.read_text(encoding="utf-8"))
        figures = step_ratio(options.steps, Certificate.from_json(data))
        if figures is not None:
            options.certificate.with_name("figures.json").write_text(json.dumps(figures), encoding="utf-8")
        return
    began_s = time.monotonic()
    proof = prove_recipe(resolved_recipe(), environment=os.environ)
    assert proof.certificate is not None, "bloom_tiny is proved"
    proved_s = time.monotonic() - began_s
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "certificate.json"
        path.write_text(json.dumps(proof.certificate.to_json()), encoding="utf-8")
        size = path.stat().st_size
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
        program = [__file__, "--steps", str(options.steps), "--certificate", str(path)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, *rendezvous, *program], env=environment, check=True)
        step = json.loads(path.with_name("figures.json").read_text(encoding="utf-8"))
    figures = {"call": per_call(), "step": step, "certificate_bytes": size, "proof_s": proved_s}
    results = Results(
        "certificate_overhead",
        what="what comparing each call with the certificate costs: a call, a step, the file, the proof",
        measures=["src/emberward/sources", "src/emberward/events"],
        settings={"steps": options.steps},
        is_fresh=options.fresh,
        folder=options.into,
    )
    results.add("all", figures)
    results.summarise(figures)


if __name__ == "__main__":
    main()
