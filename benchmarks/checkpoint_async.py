"""Saves beside the training, against saves in the foreground, torch's DCP, its async_save, and torch.save.

    OMP_NUM_THREADS=1 python benchmarks/checkpoint_async.py [--ranks 1] [--megabytes 250] [--rounds 4] [--folder DIR]

Each rank is a process with one thread of torch; it trains a small stack of matrices, agrees with the others in each
step (gloo), and owns `megabytes` of weights and moments. In every round all ways take turns, forwards and then
backwards, so that the noise falls on all. `blocked_s` is the time in the call. `lost_s` is what training lost from the
call until the save was whole on every rank: the time of the steps in between, less as many undisturbed steps of just
before and after, plus `blocked_s`. `cpu_s` is processor time, summed over ranks: of a rank in the call, and of its
writer until it is done. Every file is fsynced in all ways. Loads come from the page cache, into tensors that are there.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

from emberward import lanes
from emberward.checkpoint import BackgroundSaves, Keep, Shard, alone, latest, load, save
from emberward.rank._agreements import SaveAgreements
from emberward.recipe import ReadBack

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

HIDDEN, BATCH = 1024, 32
QUIET_STEPS = 8
LIMIT_S = 60.0
MAX_PATIENCE_S = 12.0
"""Less than a run's, so that a machine without an idle processor does not make a benchmark of minutes."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Ended = Callable[[], bool]
Row = dict[str, float]


class Job:
    """Training: a step multiplies by some of the weights, and the ranks agree on what came of it."""

    def __init__(self, num_bytes: int, rank: int) -> None:
        generator = torch.Generator().manual_seed(1 + rank)
        count = max(round(num_bytes / (3 * 4 * HIDDEN * HIDDEN)), 1)
        self.rank = rank
        self.state: dict[str, torch.Tensor] = {}
        for number in range(count):
            name = f"{rank}.{number}"
            self.state[f"model/{name}"] = torch.randn(HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5
            for moment in ("exp_avg", "exp_avg_sq"):
                self.state[f"optim/{moment}/{name}"] = torch.rand(HIDDEN, HIDDEN, generator=generator)
        self.weights = [value for name, value in self.state.items() if name.startswith("model/")]
        self.input = torch.randn(BATCH, HIDDEN, generator=generator)
        self.num_bytes = sum(value.nbytes for value in self.state.values())

    def step(self, is_ended: bool = False) -> tuple[float, bool]:
        """Seconds of one step, and whether every rank said `is_ended`. All ranks call."""
        began_s = time.perf_counter()
        value = self.input
        for weight in self.weights:
            value = torch.tanh(value @ weight)
        totals = torch.stack([value.mean(), torch.tensor(float(is_ended))])
        dist.all_reduce(totals)
        self.weights[0].add_(totals[0], alpha=1e-6)
        return time.perf_counter() - began_s, bool(totals[1] == dist.get_world_size())

    def shards(self) -> list[Shard]:
        """The state as the checkpoints want it; shares memory."""
        return [
            Shard(name=name, global_shape=tuple(v.shape), box=tuple((0, n) for n in v.shape), tensor=v)
            for name, v in self.state.items()
        ]


def writer_cpu_s(pid: int | None) -> float:
    """Processor time of a rank's writer so far."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def writer_bytes(pid: int | None) -> int:
    """Memory of a rank's writer that is its own: not the copy, which it shares with its rank, and no files."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def measure(job: Job, begin: Callable[[], Ended], writer: Callable[[], int | None]) -> Row:
    """What a save cost this rank: in the call, and until it was whole on all while training went on."""
    dist.barrier()
    quiet = [job.step()[0] for _ in range(QUIET_STEPS)]
    written_s, own_s = writer_cpu_s(writer()), time.process_time()
    began_s = time.perf_counter()
    ended = begin()
    blocked_s = time.perf_counter() - began_s
    own_s = time.process_time() - own_s
    steps, is_over = [], False
    while not is_over:
        step_s, is_over = job.step(ended())
        steps.append(step_s)
    whole_s = time.perf_counter() - began_s
    quiet += [job.step()[0] for _ in range(QUIET_STEPS)]
    quiet_s = statistics.fmean(quiet)
    disturbed_s = sum(steps) - quiet_s * len(steps) if whole_s > 1.5 * (blocked_s + quiet_s) else 0.0
    return {
        "blocked_s": blocked_s,
        "whole_s": whole_s,
        "lost_s": blocked_s + max(disturbed_s, 0.0),
        "cpu_s": own_s + writer_cpu_s(writer()) - written_s,
        "steps": len(steps),
        "step_s": quiet_s,
    }


class Ways:
    """Every way to save, each into a folder of its own."""

    def __init__(self, job: Job, folder: Path, store: dist.Store) -> None:
        self._job = job
        self._folder = folder
        self._store = store
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._step = 0
        self._group = dist.new_group(backend="gloo")
        self.beside = {how: self._beside(how) for how in (ReadBack.NONE, ReadBack.FULL)}
        self.agreements = self._agreements("foreground")

    def all(self) -> dict[str, Callable[[], Ended]]:
        """What begins each way's save, by its name."""
        return {
            "emberward foreground": lambda: self._foreground(ReadBack.NONE),
            "emberward foreground, read back": lambda: self._foreground(ReadBack.FULL),
            "emberward beside": lambda: self._background(ReadBack.NONE),
            "emberward beside, read back": lambda: self._background(ReadBack.FULL),
            "torch.save": self._plain,
            "DCP save": self._dcp,
            "DCP async_save": self._dcp_async,
        }

    def writer(self, way: str) -> Callable[[], int | None]:
        """The pid of the way's writer, once there is one."""
        how = {"emberward beside": ReadBack.NONE, "emberward beside, read back": ReadBack.FULL}.get(way)
        return lambda: None if how is None else self.beside[how].writer_pid

    def _agreements(self, name: str) -> SaveAgreements:
        store = dist.PrefixStore(name, self._store)
        return SaveAgreements(store, rank=self._rank, world_size=self._size, timeout_s=LIMIT_S)

    def _beside(self, how: ReadBack) -> BackgroundSaves:
        return BackgroundSaves(
            self._folder / f"beside {how}",
            rank=self._rank,
            world_size=self._size,
            agreement=self._agreements(f"beside {how}").agreement if self._size > 1 else lambda number: alone,
            jobs=lanes.lane(f"saves beside {how}", finishes_at_exit=False),
            keep=Keep(last=1),
            read_back=how,
            max_patience_s=MAX_PATIENCE_S,
        )

    def _foreground(self, how: ReadBack) -> Ended:
        self._step += 1
        agree = self.agreements.agreement(self._step) if self._size > 1 else alone
        root = self._folder / f"foreground {how}"
        save(
            root, step=self._step, shards=self._job.shards(), meta={}, rank=self._rank, world_size=self._size,
            agree=agree, keep=1, read_back=how,
        )  # fmt: skip
        return lambda: True

    def _background(self, how: ReadBack) -> Ended:
        self._step += 1
        saves = self.beside[how]
        saves.begin(step=self._step, shards=self._job.shards(), meta={})
        landed: list[bool] = []

        def ended() -> bool:
            written = None if landed else saves.poll()
            if written is not None:
                if written.error is not None:
                    raise written.error
                landed.append(True)
            return bool(landed)

        return ended

    def _plain(self) -> Ended:
        with (self._folder / f"plain {self._rank}.pt").open("wb") as file:
            torch.save(self._job.state, file)
            file.flush()
            os.fsync(file.fileno())
        return lambda: True

    def _clear(self, name: str) -> Path:
        if self._rank == 0:
            shutil.rmtree(self._folder / name, ignore_errors=True)
        dist.barrier(group=self._group)
        return self._folder / name

    def _dcp(self) -> Ended:
        dcp.save(dict(self._job.state), checkpoint_id=self._folder / "dcp", process_group=self._group)
        return lambda: True

    def _dcp_async(self) -> Ended:
        answer: Any = dcp.async_save(
            dict(self._job.state), checkpoint_id=self._folder / "dcp async", process_group=self._group
        )
        future: Future[Any] = getattr(answer, "upload_completion", answer)

        def ended() -> bool:
            if not future.done():
                return False
            future.result()
            return True

        return ended

    def clear(self, way: str) -> None:
        """Before a save of DCP its folder is emptied: it would be overwritten in place. All ranks call."""
        if way.startswith("DCP"):
            self._clear("dcp" if way == "DCP save" else "dcp async")

    def close(self) -> None:
        """Ends the writers."""
        for saves in self.beside.values():
            saves.close()


def loads(job: Job, folder: Path) -> dict[str, Callable[[], object]]:
    """Every way to load, into tensors that are there."""
    target = Job(job.num_bytes, job.rank)

    def plain() -> None:
        read = torch.load(folder / f"plain {job.rank}.pt", mmap=True, weights_only=True)
        for name, value in target.state.items():
            value.copy_(read[name])

    def ours() -> None:
        path = latest(folder / f"foreground {ReadBack.NONE}")
        assert path is not None
        load(path, target.shards())

    return {
        "emberward, every byte proved": ours,
        "torch.load (memory map) and copy": plain,
        "DCP load": lambda: dcp.load(dict(target.state), checkpoint_id=folder / "dcp"),
    }


def _store(rank: int) -> dist.Store:
    """A store that the ranks share beside their group, as the ranks of a run do."""
    port = torch.zeros(1, dtype=torch.int64)
    limit = timedelta(seconds=LIMIT_S)
    if rank == 0:
        served = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=limit, wait_for_workers=False)
        port[0] = served.port
        dist.broadcast(port, 0)
        return served
    dist.broadcast(port, 0)
    return dist.TCPStore("127.0.0.1", int(port[0]), is_master=False, timeout=limit)


def run_rank(rank: int, options: argparse.Namespace, folder: Path) -> None:
    """Measures as one rank; each writes what it saw into `folder`."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), options.ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=options.ranks)
    own = _store(rank)
    rows: dict[str, list[Row]] = {}
    seconds: dict[str, list[float]] = {}
    with torch.no_grad():
        job = Job(options.megabytes * 1_000_000, rank)
        ways = Ways(job, folder, own)
        names = list(ways.all())
        for number in range(options.rounds + 1):
            for way in names if number % 2 == 0 else reversed(names):
                ways.clear(way)
                rows.setdefault(way, []).append(measure(job, ways.all()[way], ways.writer(way)))
        for _ in range(options.rounds + 1):
            for way, run in loads(job, folder).items():
                dist.barrier()
                began_s = time.perf_counter()
                run()
                seconds.setdefault(way, []).append(time.perf_counter() - began_s)
        own_bytes = writer_bytes(ways.beside[ReadBack.FULL].writer_pid)
        ways.close()
    found = {"rows": rows, "loads": seconds, "state_bytes": job.num_bytes, "writer_bytes": own_bytes}
    (folder / f"rank{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def summary(rows: list[Row], num_bytes: int) -> dict[str, float]:
    """Medians over the rounds; the first round warms up and does not count."""
    middle = {key: statistics.median(row[key] for row in rows[1:]) for key in rows[0]}
    return {**middle, "first_blocked_s": rows[0]["blocked_s"], "MB_per_s": num_bytes / middle["whole_s"] / 1e6}


def ratio(rows: dict[str, list[Row]], a: tuple[str, str], b: tuple[str, str]) -> float:
    """Median over rounds of one figure over another of the same round."""
    return statistics.median(x[a[1]] / y[b[1]] for x, y in list(zip(rows[a[0]], rows[b[0]], strict=True))[1:])


def ratios(rows: dict[str, list[Row]]) -> dict[str, float]:
    """What is claimed."""
    beside, read_back = "emberward beside", "emberward beside, read back"
    pairs = {
        "blocked beside / foreground": ((beside, "blocked_s"), ("emberward foreground", "blocked_s")),
        "lost beside / foreground": ((beside, "lost_s"), ("emberward foreground", "blocked_s")),
        "blocked beside / foreground, both read back": (
            (read_back, "blocked_s"),
            ("emberward foreground, read back", "blocked_s"),
        ),
        "lost beside / foreground, both read back": (
            (read_back, "lost_s"),
            ("emberward foreground, read back", "blocked_s"),
        ),
        "blocked beside, read back / DCP async_save": ((read_back, "blocked_s"), ("DCP async_save", "blocked_s")),
        "lost beside, read back / DCP async_save": ((read_back, "lost_s"), ("DCP async_save", "lost_s")),
        "foreground / DCP save": (("emberward foreground", "blocked_s"), ("DCP save", "blocked_s")),
        "foreground / torch.save": (("emberward foreground", "blocked_s"), ("torch.save", "blocked_s")),
    }
    return {name: ratio(rows, a, b) for name, (a, b) in pairs.items()}


def slowest(found: list[dict[str, Any]]) -> dict[str, list[Row]]:
    """The rows of the rank that was held up longest, in each round; processor time is the ranks' sum."""
    rows: dict[str, list[Row]] = {}
    for way in found[0]["rows"]:
        rows[way] = []
        for of_ranks in zip(*(each["rows"][way] for each in found), strict=True):
            row = {key: max(one[key] for one in of_ranks) for key in of_ranks[0]}
            rows[way].append({**row, "cpu_s": sum(one["cpu_s"] for one in of_ranks)})
    return rows


def main() -> None:
    """Writes the figures to the output and to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=250, help="of each rank")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=None)
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        mp.spawn(run_rank, args=(options, Path(name)), nprocs=options.ranks)
        found = [
            json.loads((Path(name) / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(options.ranks)
        ]
    rows, num_bytes = slowest(found), found[0]["state_bytes"]
    result = {
        "state_bytes": num_bytes,
        "staged_bytes": num_bytes,
        "writer_bytes": max(each["writer_bytes"] for each in found),
        "saves": {way: summary(of_way, num_bytes) for way, of_way in rows.items()},
        "load_MB_per_s": {way: num_bytes / statistics.median(s[1:]) / 1e6 for way, s in found[0]["loads"].items()},
        "ratios": ratios(rows),
    }
    results = Results(
        "checkpoint_async" if options.ranks == 1 else f"checkpoint_async_{options.ranks}",
        what="saves beside the training: one thread of torch a rank; medians over rounds in which all ways take turns; "
        "of ranks, the slowest",
        measures=["src/emberward/checkpoint", "src/emberward/rank/_saves.py"],
        settings={"ranks": options.ranks, "megabytes": options.megabytes, "rounds": options.rounds},
        is_fresh=options.fresh,
        folder=options.into,
    )
    results.add("all", result)
    results.summarise({"ratios": result["ratios"]})


if __name__ == "__main__":
    main()
