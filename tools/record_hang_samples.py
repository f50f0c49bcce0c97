"""Runs the programs of ``tests/data/hangs/hang_program.py`` until they hang, and keeps their dumps and stacks.

``python tools/record_hang_samples.py [NAME ...]`` needs torch, py-spy and the right to trace children. For each program
it writes ``tests/data/hangs/NAME/``: ``rank_N`` (the flight recorder's pickle), ``stacks.json`` (py-spy, all ranks and
their children), ``stacks.txt`` (the same as text, without ranks), ``about.json`` (pids and the truth). Folder names of
the machine are taken out of all paths. Records the truth about each program too, in `EXPECTED`.
"""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from ports import reserve_port  # type: ignore[import-not-found] # noqa: E402 (mypy does not see tests/)

HOME = ROOT / "tests" / "data" / "hangs"
PROGRAM = HOME / "hang_program.py"
WORLD = 4
STILL_S = 2.0
START_LIMIT_S = 90.0
MAX_ENTRIES = 16

# What is wrong with each program: kind, guilty ranks, cause, the function and a text of the guilty line.
EXPECTED: dict[str, tuple[str, tuple[int, ...], str, str]] = {
    "sleep_in_step": ("hang", (1,), "sleep", "time.sleep(3600)"),
    "lock_held": ("hang", (3,), "lock", "with lock:"),
    "event_never_set": ("hang", (0,), "lock", "event.wait()"),
    "file_without_end": ("hang", (2,), "file_read", 'with open(folder / "fifo", "rb") as file:'),
    "child_never_ends": ("hang", (0,), "subprocess", "subprocess.run("),
    "spins": ("hang", (3,), "cpu_loop", "n += 1"),
    "store_key_missing": ("hang", (1,), "store_wait", "store.get("),
    "data_worker_stuck": ("hang", (2,), "dataloader_worker", "threading.Event().wait()"),
    "save_never_ends": ("hang", (0,), "checkpoint_io", 'with open(folder / "fifo", "wb") as file:'),
    "skips_one": ("missing", (2,), "skipped_collective", "dist.barrier()"),
    "adds_one": ("missing", (1,), "extra_collective", "dist.all_gather("),
    "other_operation": ("mismatch", (2,), "different_op", "dist.broadcast(x, src=0)"),
    "orders_differ": ("deadlock", (), "cycle_collective", ""),
    "ring_of_receives": ("deadlock", (), "cycle_p2p", ""),
    "nobody_sends": ("missing", (2,), "unmatched_p2p", "dist.recv(x, src=0)"),
    "uneven_batches": ("missing", (3,), "uneven_data", "dist.barrier()"),
    "first_call_missing": ("hang", (2,), "sleep", "time.sleep(3600)"),
    "healthy": ("none", (), "none", ""),
    "slow_but_alive": ("none", (), "none", ""),
}
ALIVE = ("healthy", "slow_but_alive")


def shorten(path: str) -> str:
    """A file's path without the folders of this machine."""
    found = re.search(r"site-packages/(.*)$", path)
    if found:
        return f"site-packages/{found.group(1)}"
    found = re.search(r"lib/(python3\.\d+/.*)$", path)
    if found:
        return f"lib/{found.group(1)}"
    return f"/job/{Path(path).name}" if path.startswith("/") else path


def clean_dump(data: bytes) -> bytes:
    """The dump with short paths and at most the frames down to two of the user's."""
    dump = pickle.loads(data)  # written by the child that this script started
    dump["entries"] = dump["entries"][-MAX_ENTRIES:]
    for entry in dump["entries"]:
        frames: list[dict[str, Any]] = []
        users = 0
        for frame in entry["frames"]:
            name = shorten(frame["filename"])
            frames.append({**frame, "filename": sys.intern(name)})
            users += name.startswith("/job/")
            if users == 2:
                break
        entry["frames"] = frames
    return pickle.dumps(dump, protocol=2)


def clean_threads(threads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = ("pid", "thread_id", "thread_name", "os_thread_id", "active", "owns_gil", "process_info")
    out = []
    for thread in threads:
        if thread["thread_name"] != "MainThread":
            continue
        row = {key: thread[key] for key in kept}
        if isinstance(row["process_info"], dict):
            parent = row["process_info"].get("parent")
            row["process_info"] = {
                "pid": thread["pid"],
                "command_line": "python hang_program.py",
                "parent": None if parent is None else {"pid": parent["pid"]},
            }
        row["frames"] = [
            {"name": f["name"], "filename": shorten(f["filename"]), "line": f["line"]} for f in thread["frames"]
        ]
        out.append(row)
    return out


def wait_for(condition: Any, limit_s: float, what: str) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


def wait_still(folder: Path) -> None:
    """Returns when no rank has finished a step for STILL_S."""
    since, last = time.monotonic(), None
    end = since + START_LIMIT_S
    while time.monotonic() - since < STILL_S and time.monotonic() < end:
        beats = [(folder / f"beat_{r}").read_text() for r in range(WORLD)]
        if beats != last or any(b in ("", "0") for b in beats):
            since, last = time.monotonic(), beats
        time.sleep(0.1)


def take_snapshot(folder: Path, number: int, target: Path, pids: list[int]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    (folder / f"dump.{number}").touch()
    wait_for(lambda: all((folder / f"look{number}_rank_{r}").exists() for r in range(WORLD)), 20, "dumps")
    for rank in range(WORLD):
        (target / f"rank_{rank}").write_bytes(clean_dump((folder / f"look{number}_rank_{rank}").read_bytes()))
    spy = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
    snapshots, texts = [], []
    for pid in pids:
        args = [spy, "dump", "--subprocesses", "--pid", str(pid)]
        done = subprocess.run([*args, "--json"], capture_output=True, check=True, timeout=30)
        snapshots.append(clean_threads(json.loads(done.stdout)))
        text = subprocess.run(args, capture_output=True, check=True, timeout=30, text=True).stdout
        text = re.sub(r"^Process (\d+): .*$", r"Process \1: python hang_program.py", text, flags=re.MULTILINE)
        text = re.sub(r"^( *)Parent Process (\d+): .*$", r"\1Parent Process \2: python", text, flags=re.MULTILINE)
        texts.append(re.sub(r"^Python v.*$", "Python v3.11", text, flags=re.MULTILINE))
    (target / "stacks.json").write_text(json.dumps(snapshots, separators=(",", ":")))
    (target / "stacks.txt").write_text("\n".join(re.sub(r"\((?:/[^()\s]*/)", "(", text) for text in texts))


def record(name: str) -> None:
    target = HOME / name
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.mkfifo(folder / "fifo")
        env = {
            **os.environ,
            "WORLD_SIZE": str(WORLD),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(reserve_port()),
            "OMP_NUM_THREADS": "1",
        }
        children = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), name, scratch],
                env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.DEVNULL,
                stderr=(folder / f"err_{rank}").open("w"),
                start_new_session=True,
            )
            for rank in range(WORLD)
        ]
        try:
            beats = [folder / f"beat_{rank}" for rank in range(WORLD)]
            wait_for(lambda: all(b.exists() and b.read_text() not in ("", "0") for b in beats), START_LIMIT_S, name)
            pids = [child.pid for child in children]
            shutil.rmtree(target, ignore_errors=True)
            if name in ALIVE:
                take_snapshot(folder, 0, target / "look0", pids)
                first = [int(b.read_text() or 0) for b in beats]
                wait_for(
                    lambda: all(int(b.read_text() or 0) > n + 1 for b, n in zip(beats, first, strict=True)), 30, name
                )
                take_snapshot(folder, 1, target / "look1", pids)
            else:
                wait_still(folder)
                take_snapshot(folder, 0, target, pids)
            kind, ranks, cause, line = EXPECTED[name]
            about = {
                "kind": kind,
                "culprit_ranks": ranks,
                "cause": cause,
                "line": line,
                "pids": pids,
                "taken_ns": time.time_ns(),
            }
            (target / "about.json").write_text(json.dumps(about))
        except TimeoutError:
            for rank in range(WORLD):
                sys.stderr.write((folder / f"err_{rank}").read_text()[-800:])
            raise
        finally:
            for child in children:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(60.0)


def main() -> None:
    for name in sys.argv[1:] or EXPECTED:
        record(name)
        sys.stderr.write(f"recorded {name}\n")


if __name__ == "__main__":
    main()
