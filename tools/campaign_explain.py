"""Keeps the dumps of programs that hang under plain torch, and writes docs/measured/explain.json: what explain says.

Usage: python tools/campaign_explain.py [--keep FOLDER] [--seconds N] [--at-once N] [--torchrun NAME ...]
       [NAME ...]

Nothing of Emberward is loaded into the ranks. Kept are torch's flight recorder and py-spy's stacks (all ranks and their
children) and, of programs that end, the folder of logs that torchrun writes. Each is explained by itself and together,
and held against the truth. What was kept is not run again: without ``--keep`` it is thrown away at the end.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# mypy does not see tests/.
from measured import Results, add_options  # noqa: E402
from ports import reserve_port  # type: ignore[import-not-found] # noqa: E402
from ranks.dumped.truth import UNTUNED  # type: ignore[import-not-found] # noqa: E402
from ranks.hangs.truth import ALIVE, TRUTHS  # type: ignore[import-not-found] # noqa: E402

from emberward.findings import Finding, Severity  # noqa: E402
from emberward.sources.dumps import explain_paths  # noqa: E402

HANGS, DUMPED = ROOT / "tests" / "ranks" / "hangs", ROOT / "tests" / "ranks" / "dumped"
START_LIMIT_S = 120.0
STILL_S = 1.5
STILL_LIMIT_S = 25.0
ALIVE_S = 8.0
FIRST_DUMP_LIMIT_S = 30.0
LATE_DUMP_S = 2.0
SPY_LIMIT_S = 25.0
# Each a way in which a job in order looks like a hang; the others differ in what the watcher sees only.
LOOK_ALIKES = tuple(
    name
    for name in (
        "slow_but_alive", "long_evaluation", "long_save", "slow_reader", "slow_lock", "slow_producer", "slow_worker",
        "slow_child", "late_key", "late_group", "slow_stage", "slow_compile",
    )
    if name in ALIVE
)  # fmt: skip
FORMS = ("flights", "stacks", "named_stacks", "native_stacks", "both", "logs")
# What the host does is in no flight recorder, and gloo's holds no sends and receives: there "unknown" is right.
HOST_CAUSES = frozenset(
    {
        "sleep", "lock", "file_read", "subprocess", "cpu_loop", "store_wait", "dataloader_worker", "checkpoint_io",
        "gc", "compile", "stopped", "thread_died", "main_exited", "missing_group", "unmatched_p2p", "cycle_p2p",
        "cycle_credit",
    }
)  # fmt: skip
# What no stack shows: a thread that is gone, a worker that py-spy cannot look into. The plainer word is right there.
PLAINER = {"thread_died": "lock"}
# Ranks that turned their order round, which files of some ranks tell; half of all do, so that all files name nobody.
TURNED = {"cycle_collective": ((1,), (3,), (1, 3))}
UNSEEN_LINES = frozenset({"thread_died", "stopped_worker"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """One program and what is wrong with it. `others`: ranks that may be named as well. `is_silent`: it goes on."""

    name: str
    program: Path
    kinds: tuple[str, ...]
    ranks: tuple[int, ...]
    causes: tuple[str, ...]
    line: str
    others: tuple[tuple[int, ...], ...] = ()
    world: int = 4
    is_tuned: bool = True
    is_alive: bool = False
    is_silent: bool = False
    ends: bool = False


def cases() -> dict[str, Case]:
    """The programs of the hang tests, some of their look-alikes, and those that nobody tuned for."""
    out = {
        t.name: Case(
            name=t.name,
            program=HANGS / f"{t.family}.py",
            kinds=(t.kind,),
            ranks=t.ranks,
            causes=(t.cause,),
            line=t.line,
            others=TURNED.get(t.name, ()),
            world=t.world,
            ends=t.ends,
            is_silent=t.cause == "dtype",
            # A straggler's job goes on: no error is right.
            is_alive=t.kind == "straggler",
        )
        for t in TRUTHS.values()
        # Slow hosts, devices and versions are for a watcher to tell, not for dumps.
        if t.kind not in ("device", "config")
    }
    for t in UNTUNED.values():
        out[t.name] = Case(
            name=t.name,
            program=DUMPED / "untuned.py",
            kinds=t.kinds,
            ranks=t.ranks,
            causes=t.causes,
            line=t.line,
            others=t.others,
            world=t.world,
            is_tuned=False,
        )
    for name in LOOK_ALIKES:
        alive = Case(name=name, program=HANGS / "alive.py", kinds=("none",), ranks=(), causes=("none",), line="")
        out[name] = Case(**{**{k: getattr(alive, k) for k in alive.__dataclass_fields__}, "is_alive": True})
    return out


def _wait(condition: Any, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Job:
    """The ranks of one program; leaving the context ends them and their children."""

    def __init__(self, case: Case, folder: Path, *, with_torchrun: bool) -> None:
        self.case, self.folder, self.number = case, folder, 0
        port = str(reserve_port())
        env = {
            **os.environ,
            "PYTHONPATH": str(HANGS),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": str(case.world),
        }
        words = [str(DUMPED / "keeper.py")]
        if with_torchrun or case.ends:
            logs = ["--log-dir", str(folder / "logs"), "--redirects", "3"]
            head = ["-m", "torch.distributed.run", f"--nproc-per-node={case.world}", f"--master-port={port}", *logs]
            words = [*head, *words]
        else:
            words += ["--fork", str(case.world)]
        (folder / "logs").mkdir()
        with (folder / "logs" / "launcher.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words, str(case.program), case.name, str(folder), str(ALIVE_S)],
                env=env,
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        listed = subprocess.run(["ps", "-eo", "pid=,sid="], capture_output=True, text=True, check=True).stdout
        for row in listed.splitlines():
            pid, session = map(int, row.split())
            if session == self.process.pid or pid in self.pids():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.process.wait(60.0)

    def pids(self) -> list[int]:
        """The ranks' processes, in the order of ranks."""
        files = [self.folder / f"pid.{rank}" for rank in range(self.case.world)]
        return [int(path.read_text()) for path in files if path.exists()]

    def fault_s(self) -> float | None:
        """Seconds since the fault began; None before."""
        times = [float(path.read_text().split()[0]) for path in self.folder.glob("fault.[0-9]*")]
        return time.time() - min(times) if times else None

    def dump(self) -> dict[int, bytes]:
        """A flight-recorder dump of each rank that answers: some never do, and a first one imports half of torch."""
        number, self.number = self.number, self.number + 1
        (self.folder / f"dump.{number}").touch()
        files = {rank: self.folder / f"dump{number}_rank_{rank}" for rank in range(self.case.world)}
        end, last, seen = time.monotonic() + FIRST_DUMP_LIMIT_S, time.monotonic(), 0
        while time.monotonic() < end and seen < len(files) and (not seen or time.monotonic() - last < LATE_DUMP_S):
            there = sum(path.exists() for path in files.values())
            if there != seen:
                seen, last = there, time.monotonic()
            time.sleep(0.02)
        return {rank: path.read_bytes() for rank, path in files.items() if path.exists()}


def spy(pid: int, *words: str) -> bytes | None:
    """py-spy's dump of a process; None when it does not come."""
    tool = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
    command = [tool, "dump", *words, "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SPY_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def family(pid: int) -> list[int]:
    """The process and its children, which come after it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, row.split())) for row in listed.splitlines()]
    return [pid, *(child for child, parent in pairs if parent == pid)]


def keep_snapshot(job: Job, dumps: dict[int, bytes], target: Path) -> None:
    """Files as people have them: torch's names, stacks of all processes in one text, and JSON for each rank."""
    for name in ("flights", "stacks", "named_stacks"):
        (target / name).mkdir(parents=True)
    for rank, data in dumps.items():
        (target / "flights" / f"nccl_trace_rank_{rank}").write_bytes(data)
    texts, native = [], []
    for rank, pid in enumerate(job.pids()):
        # py-spy's JSON leaves children out (0.4.3), its text does not.
        forms = [json.loads(form) for each in family(pid) if (form := spy(each, "--json")) is not None]
        if forms:
            (target / "named_stacks" / f"pyspy_rank_{rank}.json").write_text(json.dumps(forms))
        text = spy(pid, "--subprocesses")
        if text is not None:
            texts.append(text.decode(errors="replace"))
        # A second for each process: taken of those programs alone that nobody tuned for.
        text = None if job.case.is_tuned else spy(pid, "--subprocesses", "--native")
        if text is not None:
            native.append(text.decode(errors="replace"))
    (target / "stacks" / "stacks.txt").write_text("\n".join(texts))
    if native:
        (target / "native_stacks").mkdir()
        (target / "native_stacks" / "stacks.txt").write_text("\n".join(native))
    shutil.copytree(target / "flights", target / "both")
    shutil.copy(target / "stacks" / "stacks.txt", target / "both")
    shutil.copytree(target / "named_stacks", target / "both", dirs_exist_ok=True)


def wait_still(job: Job) -> dict[int, bytes]:
    """The dumps of a job in which no call was made for `STILL_S`."""
    dumps, since = job.dump(), time.monotonic()
    end = since + STILL_LIMIT_S
    while time.monotonic() < end and time.monotonic() - since < STILL_S:
        time.sleep(0.3)
        again = job.dump()
        if again != dumps:
            dumps, since = again, time.monotonic()
    return dumps


def record(case: Case, target: Path, *, with_torchrun: bool) -> None:
    """Runs the program and keeps what it left below `target`, which is made."""
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="emberward-explain-") as scratch:
        folder = Path(scratch)
        with Job(case, folder, with_torchrun=with_torchrun) as job:
            if not _wait(lambda: job.fault_s() is not None or job.process.poll() is not None, START_LIMIT_S):
                raise TimeoutError(f"{case.name}: no fault\n{tails(folder)}")
            if case.ends:
                _wait(lambda: job.process.poll() is not None, 60)
                shutil.copytree(folder / "logs", part / "logs")
            elif case.is_alive:
                _wait(lambda: (job.fault_s() or 0) > STILL_S, 10)
                keep_snapshot(job, job.dump(), part / "look0")
                _wait(lambda: (job.fault_s() or 0) > ALIVE_S + 1.0, 30)
                if not list(folder.glob("left.[0-9]*")):
                    keep_snapshot(job, job.dump(), part / "look1")
            else:
                _wait(lambda: (job.fault_s() or 0) > 1.0, 10)
                keep_snapshot(job, job.dump() if case.is_silent else wait_still(job), part)
            launched = "torchrun" if with_torchrun or case.ends else "fork"
            (part / "about.json").write_text(json.dumps({"pids": job.pids(), "launched": launched}))
    part.rename(target)


def tails(folder: Path) -> str:
    """The ends of the logs."""
    logs = [*folder.glob("log.*"), *folder.glob("logs/**/*.log")]
    return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-800:]}" for p in logs)


def is_line(site: str | None, case: Case) -> bool:
    """Whether the site is the guilty line."""
    file, _, number = (site or "").rpartition(":")
    path = case.program.parent / Path(file).name
    if not number.isdigit() or not path.is_file():
        return False
    lines = path.read_text().splitlines()
    return int(number) <= len(lines) and any(text in lines[int(number) - 1] for text in case.line.split(" or "))


def held(finding: Finding, case: Case, pids: list[int], form: str) -> dict[str, Any]:
    """What was said, and for each part of it: right, unknown, or wrong."""
    ranks = finding.culprit_ranks or tuple(sorted(pids.index(p) for p in finding.culprit_pids if p in pids))
    strange = [p for p in finding.culprit_pids if p not in pids]
    named = "right" if ranks in (case.ranks, *case.others) and not strange else "wrong"
    if named == "wrong" and not ranks and not strange:
        named = "unknown"
    if not case.ranks:
        is_cycle = finding.kind.value in case.kinds
        named = "wrong" if ranks or strange else "right" if is_cycle else "unknown"
    cause = "right" if finding.cause.value in case.causes else "wrong"
    if cause == "wrong" and (finding.cause.value in ("unknown", "none") or finding.certainty.value == "unknown"):
        cause = "unknown"
    if finding.cause.value == PLAINER.get(case.causes[0]):
        cause = "plainer"
    kind = "right" if finding.kind.value in case.kinds else "wrong"
    if kind == "wrong" and (
        finding.certainty.value == "unknown"
        or finding.kind.value == "none"
        or (finding.cause.value == "unknown" and finding.kind.value in ("hang", "device"))
    ):
        kind = "unknown"
    line = "right" if not case.line or is_line(finding.site, case) else "unknown" if finding.site is None else "wrong"
    if line == "wrong" and case.name in UNSEEN_LINES:
        line = "plainer"
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "said": f"{finding.kind.value} {finding.cause.value} {list(ranks)} {finding.site}",
        "ranks": named,
        "kind": kind,
        "cause": cause,
        "line": line,
        "can_know": not (form == "flights" and set(case.causes) & HOST_CAUSES),
    }


def judge(case: Case, kept: Path) -> dict[str, Any]:
    """What explain says of each form of what one program left."""
    about = json.loads((kept / "about.json").read_text())
    row: dict[str, Any] = {
        "program": case.name,
        "tuned": case.is_tuned,
        "launched": about["launched"],
        "truth": f"{'/'.join(case.kinds)} {'/'.join(case.causes)} {list(case.ranks)}",
    }
    if case.is_alive:
        snapshots = [path for path in (kept / "look0", kept / "look1") if path.exists()]
        row["alarms"] = {}
        for form in ("flights", "stacks", "named_stacks", "both"):
            found = explain_paths([snapshot / form for snapshot in snapshots], source_folders=[HANGS]).explanations
            one = explain_paths([snapshots[0] / form], source_folders=[HANGS]).explanations[0].verdict
            row["alarms"][form] = {
                "one_look": f"{one.severity.value} {one.code} {one.cause.value} {list(one.culprit_ranks)}",
                "is_alarm_after_two": len(snapshots) == 2 and found[0].verdict.severity is not Severity.NOTICE,
                "two_looks": f"{found[0].verdict.severity.value} {found[0].verdict.code}",
            }
        return row
    for form in FORMS:
        if (kept / form).exists():
            verdict = explain_paths([kept / form], source_folders=[case.program.parent]).explanations[0].verdict
            row[form] = held(verdict, case, about["pids"], form)
    row["parts"] = parts(case, kept)
    return row


def parts(case: Case, kept: Path) -> dict[str, Any]:
    """What explain says when files are missing: every part of four ranks' files, of more those with one or all but one.

    `wrong`: the parts of which it names a rank that is not guilty.
    """
    judged, wrong = 0, []
    for form in ("flights", "named_stacks"):
        files = sorted((kept / form).iterdir()) if (kept / form).exists() else []
        for size in range(1, len(files)):
            if len(files) > 4 and size not in (1, len(files) - 1):
                continue
            for some in itertools.combinations(files, size):
                verdict = explain_paths(some, source_folders=[case.program.parent]).explanations[0].verdict
                judged += 1
                if verdict.culprit_ranks and verdict.culprit_ranks not in (case.ranks, *case.others):
                    wrong.append(f"{form} {[path.name for path in some]}: {list(verdict.culprit_ranks)}")
    return {"judged": judged, "wrong": wrong}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts, form by form; `wrong culprits` must be none."""
    out: dict[str, Any] = {}
    for tuned in (True, False):
        some = [row for row in rows if row["tuned"] is tuned and "alarms" not in row]
        part: dict[str, Any] = {"programs": len(some)}
        for form in FORMS:
            told = [row[form] for row in some if form in row]
            counts = {key: dict(sorted(Counter(t[key] for t in told).items())) for key in ("ranks", "kind", "cause")}
            full = sum(all(t[key] == "right" for key in ("ranks", "kind", "cause", "line")) for t in told)
            counts["line"] = dict(sorted(Counter(t["line"] for t in told).items()))
            part[form] = {"judged": len(told), "all_right": full, **counts}
        out["tuned" if tuned else "untuned"] = part
    alive = [row for row in rows if "alarms" in row]
    out["look_alikes"] = {
        "programs": len(alive),
        "errors_from_one_look": sum(f["one_look"].startswith("error") for r in alive for f in r["alarms"].values()),
        "alarms_after_two_looks": sum(f["is_alarm_after_two"] for r in alive for f in r["alarms"].values()),
    }
    some = [row["parts"] for row in rows if "parts" in row]
    out["parts_of_the_ranks"] = {
        "judged": sum(part["judged"] for part in some),
        "wrong_culprits": sum(len(part["wrong"]) for part in some),
    }
    out["wrong_culprits"] = [
        f"{row['program']} {form}: {row[form]['said']}"
        for row in rows
        for form in FORMS
        if form in row and row[form]["ranks"] == "wrong"
    ]
    return out


def confusion(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, int]]]:
    """form -> true cause -> said cause -> count."""
    out: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        for form in FORMS:
            if form in row:
                true = row["truth"].split()[1]
                said = row[form]["said"].split()[1]
                cell = out.setdefault(form, {}).setdefault(true, {})
                cell[said] = cell.get(said, 0) + 1
    return out


def main() -> int:
    """Exit code 1 when a culprit was wrong or a look-alike raised an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path, default=None, help="where dumps are kept; what is there is not run again")
    parser.add_argument("--seconds", type=float, default=900.0, help="no program is begun after so long")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--torchrun", nargs="*", default=["sleep", "skipped_collective", "lost_transfer"])
    add_options(parser)
    options = parser.parse_args()
    begun = time.monotonic()
    known = cases()
    with tempfile.TemporaryDirectory(prefix="emberward-kept-") as scratch:
        keep = options.keep or Path(scratch)
        keep.mkdir(parents=True, exist_ok=True)
        names = options.names or list(known)

        def kept(name: str) -> bool:
            if not (keep / name).exists() and time.monotonic() - begun < options.seconds:
                try:
                    record(known[name], keep / name, with_torchrun=name in options.torchrun)
                except TimeoutError as error:
                    sys.stderr.write(f"{error}\n")
            return (keep / name).exists()

        with ThreadPoolExecutor(options.at_once) as pool:
            is_kept = dict(zip(names, pool.map(kept, names), strict=True))
        rows = [judge(known[name], keep / name) for name in names if is_kept[name]]
        missed = [name for name in names if not is_kept[name]]
    counts = summary(rows)
    results = Results(
        "explain",
        what="small real programs on gloo ranks without anything of ours; only their dumps were explained",
        measures=["src/emberward/sources/dumps", "src/emberward/diagnose", "src/emberward/match"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for row in rows:
        results.add(row["program"], row)
    results.summarise({**counts, "missed": missed, "confusion": confusion(rows)})
    # One snapshot cannot tell a lock that will be released from one that will not: docs/explain.md, "Slow or stuck".
    is_wrong = counts["wrong_culprits"] or counts["parts_of_the_ranks"]["wrong_culprits"]
    return 1 if is_wrong or counts["look_alikes"]["alarms_after_two_looks"] else 0


if __name__ == "__main__":
    sys.exit(main())
