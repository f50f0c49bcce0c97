"""What only a machine with a GPU can tell, in one command: ``make gpu``; ``make gpu DEVICE=cpu`` takes the same steps.

    python tools/gpu.py [--device cuda|cpu] [--into FOLDER]

At most 8 minutes. Without a GPU ``--device cuda`` ends with 2 and writes nothing. Runs from the source tree, with torch
and Emberward's few dependencies; no py-spy, no compiler. Each step is an attempt in docs/measured/gpu.json and says
what was found, also when it failed (on the CPU in a folder of its own):

* engine: losses of one rank on the device against the same rank on the CPU, in float32; of a larger model in bfloat16
  the time of a step and model FLOPs utilisation, where the device's peak is known;
* memory: weights and moments that the rank holds against the pre-flight page; on a GPU the larger model's peak too;
* shared: two ranks on the one device over gloo, through host memory, against two ranks on the CPU;
* certificate: the calls of those two were compared with the proved ones, to the end;
* times: when the device came to a collective behind a kernel, by the ring, against the kernel's own length;
* resume: the rank is killed in the middle, `train` starts it again, and the curve is the uninterrupted one's;
* recorder: a call of one rank without the recorder and with it, on the device's backend;
* hang: four ranks of which one leaves out a call (on gloo), under `emberward run`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measured import MEASURED, ROOT, Results, add_options

sys.path.insert(0, str(ROOT / "src"))

from emberward.events import Collective
from emberward.sources.ring import read_ring

LIMIT_S = 480.0
"""The whole command's; the processes of a step end with it."""
LOSS_BOUND = 1e-3
"""Largest relative difference of losses over 20 steps, as between layouts (tests/ranks/test_layout_grid.py)."""
STEPS = 20
SMALL = (
    "model.num_layers=2", "model.hidden=64", "model.seq_len=64", "batch.global_batch=8", "batch.micro_batch=4",
    "optim.warmup_samples=0", "sample_tokens=0", "save.interval=5", f"steps={STEPS}",
)  # fmt: skip
LARGE = (
    "model.num_layers=12", "model.hidden=768", "model.num_heads=12", "model.seq_len=1024", "batch.global_batch=8",
    "batch.micro_batch=4", "optim.warmup_samples=0", "sample_tokens=0", f"steps={STEPS}", "precision.compute=bf16",
)  # fmt: skip
"""For speed and memory alone, on a GPU: some 100 million parameters, in the type whose peak is known."""
PEAK_BOUND = 0.1
"""Largest relative difference of the device's peak and the page's: the allocator rounds up, and libraries have their
own workspaces (torch, notes on CUDA semantics, memory management and cuBLAS workspaces)."""
NUM_TIMED = 30
TIMES_BOUND_S = 0.003
"""So far may a median of begins on the device be from the kernel's own length: what a launch takes, on a busy host."""
TIMES = f"""
import sys, time, torch, torch.distributed as dist
from emberward.sources import cpu_nccl
device, took = torch.device(sys.argv[1]), []
is_cuda = device.type == "cuda"
if not is_cuda:
    cpu_nccl.register()
dist.init_process_group("nccl" if is_cuda else cpu_nccl.NAME, init_method="file://" + sys.argv[2], rank=0, world_size=1)
value, side = torch.zeros(4, device=device), torch.zeros(4096, 4096, device=device) if is_cuda else None
marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if is_cuda else None
def kernel():
    began = time.perf_counter()
    time.sleep(0.02)
    took.append(time.perf_counter() - began)
for _ in range({NUM_TIMED}):
    if is_cuda:
        marks[0].record()
        for _ in range(10):
            side @ side
        marks[1].record()
    else:
        cpu_nccl.launch(kernel)
    dist.all_reduce(value)
    value[0].item()
    if is_cuda:
        took.append(marks[0].elapsed_time(marks[1]) / 1000)
print(*took)
dist.destroy_process_group()
"""
KILL_AT = 8
CALLS = """
import sys, time, torch, torch.distributed as dist
device = torch.device(sys.argv[1])
backend = "nccl" if device.type == "cuda" else "gloo"
dist.init_process_group(backend, init_method="file://" + sys.argv[2], rank=0, world_size=1)
value, blocks = torch.ones(4, device=device), []
for _ in range(60):
    value.sum().item()
    began = time.perf_counter()
    for _ in range(100):
        dist.all_reduce(value)
    blocks.append(time.perf_counter() - began)
value.sum().item()
print(min(blocks) * 1e4)
dist.destroy_process_group()
"""


class Machine:
    """Where the steps run: the device, a folder for their runs, and the time that is left."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device, self.folder = device, folder
        self._end_s = time.monotonic() + LIMIT_S
        path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        (folder / "text").mkdir()
        for number in range(12):
            lines = [f"line {line} of file {number} says {line * number % 97}" for line in range(60)]
            (folder / "text" / f"text{number:02d}.txt").write_text("\n".join(lines), encoding="utf-8")

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return max(1.0, self._end_s - time.monotonic())

    def run(self, *argv: str, **environment: str) -> str:
        """What a child that has ended with code 0 wrote. Raises RuntimeError with its last words otherwise."""
        done = self.start(*argv, **environment)
        out, error = done.communicate(timeout=self.left_s)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv[:4])} ended with {done.returncode}: {(out + error)[-2000:]}")
        return out + error

    def start(self, *argv: str, **environment: str) -> subprocess.Popen[str]:
        """A child that uses the source tree."""
        env, pipe = {**self.environment, **environment}, subprocess.PIPE
        argv = (sys.executable, *argv)
        return subprocess.Popen(argv, cwd=self.folder, env=env, stdout=pipe, stderr=pipe, text=True)

    def train(self, name: str, device: str, keys: tuple[str, ...] = SMALL, *, ranks: int = 1) -> tuple[str, ...]:
        """The argv of `emberward train` into the runs of `name`."""
        data = (f"data.train={self.folder / 'text'}", f"data.cache={self.folder / 'cache'}")
        where = ("--ranks", str(ranks), "--runs", name, "--restarts", "2")
        return ("-m", "emberward", "train", "bloom_tiny", *where, *keys, f"device={device}", *data)

    def find(self, name: str, file: str) -> Path | None:
        """A file of the one run in `name`; None while it is not there."""
        return next((self.folder / name).glob(f"*/*/{file}"), None)

    def metrics(self, name: str) -> list[dict[str, Any]]:
        """The steps of the run so far, whole lines only."""
        file = self.find(name, "metrics.jsonl")
        lines = [] if file is None else file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


def difference(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> float:
    """The largest relative difference of two curves of equal length."""
    pairs = zip(rows, others, strict=True)
    return max((abs(row["loss"] / other["loss"] - 1.0) for row, other in pairs), default=float("inf"))


def recorded(machine: Machine, name: str) -> dict[str, str]:
    """The environment in which a child writes a ring into the empty folder ``rings_NAME``."""
    attach = "from emberward.sources.attach import SITE_FOLDER; print(SITE_FOLDER)"
    site, rings = machine.run("-c", attach).split()[0], machine.folder / f"rings_{name}"
    rings.mkdir()
    return {"EMBERWARD_RING": str(rings), "PYTHONPATH": os.pathsep.join([site, machine.environment["PYTHONPATH"]])}


def engine(machine: Machine) -> dict[str, Any]:
    """Losses on the device and on the CPU, time of a step, MFU."""
    machine.run(*machine.train("device", machine.device))
    rows = machine.metrics("device")
    if machine.device == "cpu":
        return {"steps": len(rows), "step_s": median(row["step_s"] for row in rows), "is_right": len(rows) == STEPS}
    machine.run(*machine.train("cpu", "cpu"))
    worst = difference(rows, machine.metrics("cpu"))
    machine.run(*machine.train("large", machine.device, LARGE))
    large = machine.metrics("large")[5:]
    mfu = median(row["mfu"] or 0.0 for row in large)
    return {
        "steps": len(rows),
        "largest_loss_difference": worst,
        "large_step_s": median(row["step_s"] for row in large),
        "large_tflops": median(row["tflops"] for row in large),
        "large_mfu": mfu or None,
        "is_right": worst <= LOSS_BOUND and mfu < 1,
    }


def memory(machine: Machine) -> dict[str, Any]:
    """Weights and moments against the page, and the device's peak; the runs of `engine` have all."""
    rank, planned = memory_of(machine, "device")
    expected = planned["weight_bytes"] + planned["optimizer_bytes"]
    held = rank["held_bytes"]
    found = {"held_bytes": held, "planned_bytes": expected, "is_right": abs(held - expected) <= 0.01 * expected}
    if machine.device == "cpu":
        return {**found, "is_right": found["is_right"] and rank.get("device_peak_bytes") is None}
    rank, planned = memory_of(machine, "large")
    peak, expected = rank["device_peak_bytes"], planned["total_bytes"]
    is_near = abs(peak - expected) <= PEAK_BOUND * expected
    return {**found, "peak_bytes": peak, "planned_peak_bytes": expected, "is_right": found["is_right"] and is_near}


def memory_of(machine: Machine, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the rank of a run said of itself, and the memory that the page had planned for it."""
    files = machine.find(name, "ranks/rank00000.json"), machine.find(name, "preflight.json")
    rank, page = (json.loads(file.read_text(encoding="utf-8")) for file in files if file is not None)
    return rank, page["roles"][0]["memory"]


def shared(machine: Machine) -> dict[str, Any]:
    """Two ranks on one device over gloo, against two on the CPU; on the CPU against one rank's curve."""
    machine.run(*machine.train("shared", machine.device, (*SMALL, "backend=gloo"), ranks=2))
    other = "device"
    if machine.device == "cuda":
        other = "cpu2"
        machine.run(*machine.train(other, "cpu", ranks=2))
    worst = difference(machine.metrics("shared"), machine.metrics(other))
    return {"largest_loss_difference": worst, "is_right": worst <= LOSS_BOUND}


def certificate(machine: Machine) -> dict[str, Any]:
    """The calls that both ranks of `shared` were held to; one that is not in the certificate would have ended them."""
    files = sorted(machine.folder.glob("shared/*/*/ranks/rank*.json"))
    proved = [json.loads(file.read_text(encoding="utf-8")).get("certified_calls") for file in files]
    return {"proved_calls": proved, "is_right": len(proved) == 2 and all(proved)}


def times(machine: Machine) -> dict[str, Any]:
    """Begins of collectives on the device, by the recorder's ring, against the length of the kernel before each."""
    said = machine.run("-c", TIMES, machine.device, str(machine.folder / "store_times"), **recorded(machine, "times"))
    kernel_s = median(float(word) for word in said.splitlines()[-1].split())
    (view,) = map(read_ring, (machine.folder / "rings_times").glob("*.ring"))
    calls = [event for event in view.events if isinstance(event.body, Collective)]
    behind = [(e.started_ns - e.issued_ns) / 1e9 for e in calls if e.started_ns is not None and e.issued_ns is not None]
    found = {"timed_calls": len(behind), "kernel_s": kernel_s, "begins_behind_launch_s": median(behind or [0.0])}
    is_near = abs(found["begins_behind_launch_s"] - kernel_s) <= TIMES_BOUND_S
    return {**found, "problems": list(view.problems), "is_right": is_near and len(behind) == NUM_TIMED}


def resume(machine: Machine) -> dict[str, Any]:
    """The curve of a run whose rank was killed, against the run of `engine`."""
    running = machine.start(*machine.train("killed", machine.device))
    while running.poll() is None and len(machine.metrics("killed")) < KILL_AT and machine.left_s > 1.0:
        time.sleep(0.01)
    file = machine.find("killed", "ranks/rank00000.json")
    if file is None or running.poll() is not None:
        raise RuntimeError(f"the run ended before step {KILL_AT}: {running.communicate()[1][-2000:]}")
    os.kill(json.loads(file.read_text(encoding="utf-8"))["pid"], signal.SIGKILL)
    killed = time.monotonic()
    running.communicate(timeout=machine.left_s)
    whole = {row["step"]: row["loss"] for row in machine.metrics("device")}
    again = {row["step"]: row["loss"] for row in machine.metrics("killed")}
    same = {"exit_code": running.returncode, "ended_after_s": time.monotonic() - killed}
    return {**same, "steps": len(again), "is_right": running.returncode == 0 and again == whole}


def recorder(machine: Machine) -> dict[str, Any]:
    """The fastest of 60 blocks of 100 calls, without the recorder and with it."""
    took = {}
    for name in ("without", "with"):
        more = recorded(machine, name) if name == "with" else {}
        store = str(machine.folder / f"store_{name}")
        took[name] = float(machine.run("-c", CALLS, machine.device, store, **more).split()[-1])
    if not any((machine.folder / "rings_with").glob("*.ring")):
        raise RuntimeError("with the recorder: no ring is there")
    cost = took["with"] - took["without"]
    return {"call_us": took["without"], "recorded_call_us": took["with"], "cost_us": cost, "is_right": True}


def hang(machine: Machine) -> dict[str, Any]:
    """What `run` says of four ranks of which rank 2 leaves out a call."""
    program = str(ROOT / "tests" / "ranks" / "hangs" / "calls.py")
    launch = ("-m", "torch.distributed.run", "--nproc-per-node=4", program, "skipped_collective", str(machine.folder))
    began = time.monotonic()
    ours = ("-m", "emberward", "run", "--runs", "hang", "--act-after", "1", "--grace-s", "1", "--")
    watched = machine.start(*ours, sys.executable, *launch)
    watched.communicate(timeout=machine.left_s)
    file = machine.find("hang", "findings.jsonl")
    lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    named = [each for each in map(json.loads, lines) if each.get("culprit_ranks") == [2] and "calls.py" in str(each)]
    took = time.monotonic() - began
    said = named[0]["message"] if named else None
    return {"exit_code": watched.returncode, "took_s": took, "said": said, "is_right": bool(named)}


CASES: dict[str, Callable[[Machine], dict[str, Any]]] = {
    "engine": engine,
    "memory": memory,
    "shared": shared,
    "certificate": certificate,
    "times": times,
    "resume": resume,
    "recorder": recorder,
    "hang": hang,
}


def num_devices() -> int:
    """How many CUDA devices torch sees, asked in a child."""
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    return int(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1]
    )


def main() -> int:
    """Runs every case; 0 when all are right, 1 otherwise, 2 without a device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    into = options.into
    if options.device == "cuda" and not num_devices():
        sys.stderr.write("torch sees no CUDA device: nothing was measured (--device cpu takes the same steps)\n")
        return 2
    if options.device == "cpu" and into == MEASURED:
        into = Path(tempfile.mkdtemp(prefix="emberward-gpu-"))
    results = Results(
        "gpu",
        what="one machine with one GPU: losses, memory, certificate, shared device, times, resume, recorder, a hang",
        measures=["tools/gpu.py", "src/emberward/engine", "src/emberward/rank", "src/emberward/sources"],
        settings={"device": options.device},
        is_fresh=True,
        folder=into,
    )
    wrong = []
    with tempfile.TemporaryDirectory(prefix="emberward-gpu-") as folder:
        machine = Machine(options.device, Path(folder))
        for name, case in CASES.items():
            began = time.monotonic()
            try:
                row = case(machine)
            except Exception as error:  # noqa: BLE001 (what a step raises is its result; the others still run)
                row = {"is_right": False, "error": f"{type(error).__name__}: {error}"}
            if not row["is_right"]:
                wrong.append(name)
            results.add(name, {**row, "seconds": round(time.monotonic() - began, 1)})
    results.summarise({"device": options.device, "num_right": len(CASES) - len(wrong), "wrong": wrong})
    print(into / "gpu.json")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
