"""The page's figures: how long the first screen of a long run takes, how large its file is, how fast a step is shown.

    python benchmarks/window.py [--fresh]      writes docs/measured/window.json; a few minutes

The folders are made as a run leaves them (tests/canned_runs.py). Each command runs in a process of its own and is timed
from its start; requests are timed from the connection to the last byte.
"""

import argparse
import http.client
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from emberward.report import RunFolder
from emberward.web import Columns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from browser import Browser
from canned_runs import HANG, append_line, make, metrics_of, say, start, write_lag, write_metrics, write_ranks
from measured import Results, add_options

EMBERWARD = (sys.executable, "-m", "emberward")
NUM_VIEWERS, NUM_TICKS = 16, 40
CUT_S = 60
NUM_TABS = 8
WATCH_S = 40


@contextmanager
def served(*words: str) -> Iterator[tuple[int, psutil.Process, float]]:
    """A server in a process of its own: its port, the process, and when it was started."""
    began_s = time.perf_counter()
    command = [*EMBERWARD, "ui", *words, "--port", "0", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline())["port"], psutil.Process(child.pid), began_s
    finally:
        child.terminate()
        child.wait(20)


def get(port: int, path: str) -> tuple[bytes, float]:
    """The body of a page, redirects followed, and the seconds that it took."""
    began_s = time.perf_counter()
    for _ in range(3):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        link.request("GET", path)
        answer = link.getresponse()
        body = answer.read()
        link.close()
        if answer.status == 200:
            return body, time.perf_counter() - began_s
        path = "/" + (answer.getheader("Location") or "")
    raise RuntimeError(f"{path}: {answer.status}")


def path_of(port: int) -> str:
    """The address of the run that is opened first."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    link.request("GET", "/")
    answer = link.getresponse()
    answer.read()
    return "/" + (answer.getheader("Location") or "")


def long_run(root: Path, *, num_steps: int, num_ranks: int, num_lag: int, a_host: int | None) -> RunFolder:
    """A run that hangs after `num_steps`."""
    folder = RunFolder(path=root / "long" / "20261122-094640-ab12")
    folder.path.mkdir(parents=True)
    folder.config.write_text("name: long\n", encoding="utf-8")
    write_ranks(folder, num_ranks, a_host=8)
    start(folder, 1, num_ranks=num_ranks)
    write_metrics(folder, (metrics_of(step, steps=2 * num_steps) for step in range(1, num_steps + 1)))
    for first in range(max(num_steps - num_lag, 0), num_steps, 1024):
        write_lag(
            folder,
            num_ranks,
            range(first + 1, min(first + 1024, num_steps) + 1),
            slow=min(37, num_ranks - 1),
            a_host=a_host,
        )
    append_line(folder.findings, {**HANG.to_json(), "attempt": 1})
    say(folder, "train", num_steps, 2 * num_steps, age_s=90, now_unix=time.time())
    return folder


def first_screen(
    root: Path, *, num_steps: int, num_ranks: int, num_lag: int, a_host: int | None = None
) -> dict[str, object]:
    """The first screen, its charts and map, a drawer, and the page as one file."""
    folder = long_run(root, num_steps=num_steps, num_ranks=num_ranks, num_lag=num_lag, a_host=a_host)
    with served(str(folder.path)) as (port, process, began_s):
        body, _ = get(port, "/")
        cold_s, cold_processor_s = time.perf_counter() - began_s, sum(process.cpu_times()[:2])
        assert HANG.message.encode() in body
        warm_s = statistics.median(get(port, "/")[1] for _ in range(5))
        path = path_of(port)
        series_s = get(port, path + "series")[1]
        before_s = sum(process.cpu_times()[:2])
        lag_s = get(port, path + "lag")[1]
        lag_processor_s = sum(process.cpu_times()[:2]) - before_s
        drawer_s = get(port, path + "rank?rank=37")[1]
        memory = process.memory_info().rss
    began_s = time.perf_counter()
    to = root / "page.html"
    subprocess.run([*EMBERWARD, "report", str(folder.path), "--html", str(to)], check=False, capture_output=True)
    return {
        "cold_s": cold_s,
        "cold_processor_s": cold_processor_s,
        "warm_s": warm_s,
        "page_bytes": len(body),
        "series_s": series_s,
        "map_s": lag_s,
        "map_processor_s": lag_processor_s,
        "drawer_s": drawer_s,
        "server_memory_bytes": memory,
        "file_s": time.perf_counter() - began_s,
        "file_bytes": to.stat().st_size,
    }


def spike(root: Path) -> dict[str, object]:
    """A spike of one step among a million: at how many zooms its exact step and value are in what is drawn."""
    folder = RunFolder(path=root)
    at, num_steps = 654_321, 1_000_000
    plain = json.dumps({"step": 0, "loss": 2.0, "grad_norm": 0.5})
    with folder.metrics.open("w", encoding="utf-8") as file:
        for step in range(1, num_steps + 1):
            text = plain.replace('"step": 0', f'"step": {step}')
            file.write((text.replace("2.0", "17.125") if step == at else text) + "\n")
    columns = Columns(folder)
    began_s = time.perf_counter()
    columns.poll()
    read_s, seen, zooms, longest_s = time.perf_counter() - began_s, 0, 0, 0.0
    half = num_steps
    while half > 1:
        began_s = time.perf_counter()
        found = columns.reduced(low=max(at - half, 1), high=min(at + half, num_steps))
        longest_s = max(longest_s, time.perf_counter() - began_s)
        loss = found["columns"]["loss"]
        pairs = (
            zip(loss["max"], loss["max_at"], strict=True)
            if "max" in loss
            else zip(loss["last"], found["step"], strict=True)
        )
        seen += (17.125, at) in set(pairs)
        zooms += 1
        half //= 2
    return {"read_s": read_s, "zooms": zooms, "zooms_with_the_spike": seen, "reduce_longest_s": longest_s}


def list_of_runs(root: Path) -> dict[str, object]:
    """The list of 200 runs."""
    for number in range(200):
        make("hang" if number % 20 == 0 else "healthy", root / f"made{number}", now_unix=time.time())
        made = root / f"made{number}"
        kind = next(made.iterdir())
        kind.rename(root / f"run{number:03}")
        made.rmdir()
    with served(str(root)) as (port, process, began_s):
        body, first_s = get(port, "/list")
        cold_s, cold_processor_s = time.perf_counter() - began_s, sum(process.cpu_times()[:2])
        warm_s = get(port, "/list")[1]
    assert body.count(b"<tr>") == 201
    return {
        "cold_s": cold_s,
        "cold_processor_s": cold_processor_s,
        "first_s": first_s,
        "warm_s": warm_s,
        "page_bytes": len(body),
    }


def disk_to_screen(root: Path) -> dict[str, object]:
    """Seconds from a step's line on disk to its event at each of 16 pages; bytes and processor time of a tick."""
    folder = make("healthy", root, now_unix=time.time())
    written: dict[int, float] = {}
    waits: list[float] = []
    sizes: list[int] = []
    with served(str(folder.path)) as (port, process, _):
        path = path_of(port)
        last = json.loads(get(port, path + "series")[0])["id"]
        ready = threading.Barrier(NUM_VIEWERS + 1)

        def view() -> None:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            link.request("GET", path + "events", headers={"Last-Event-ID": last})
            answer = link.getresponse()
            is_first = True
            while True:
                line = answer.readline()
                if not line.startswith(b"data: "):
                    continue
                at_s = time.perf_counter()
                if is_first:
                    is_first = False
                    ready.wait(60)
                points = json.loads(line[6:]).get("points")
                if points is not None:
                    sizes.append(len(line))
                    waits.extend(at_s - written[step] for step in points["step"])
                    if points["step"][-1] == 120 + NUM_TICKS:
                        link.close()
                        return

        threads = [threading.Thread(target=view, daemon=True) for _ in range(NUM_VIEWERS)]
        for thread in threads:
            thread.start()
        ready.wait(60)
        spent_s, began_s = sum(process.cpu_times()[:2]), time.perf_counter()
        for step in range(121, 121 + NUM_TICKS):
            written[step] = time.perf_counter()
            write_metrics(folder, [metrics_of(step, steps=200)])
            threading.Event().wait(0.5)
        for thread in threads:
            thread.join(60)
        share = (sum(process.cpu_times()[:2]) - spent_s) / (time.perf_counter() - began_s)
    waits.sort()
    return {
        "viewers": NUM_VIEWERS,
        "steps_seen": len(waits),
        "steps_expected": NUM_VIEWERS * NUM_TICKS,
        "p50_s": statistics.median(waits),
        "p99_s": waits[int(0.99 * len(waits))],
        "tick_bytes_median": statistics.median(sizes),
        "share_of_a_core": share,
    }


def wire_cut(root: Path) -> dict[str, object]:
    """A page whose packets are dropped for 60 s while the run goes on. Needs root, iptables and Debian's Chromium."""
    folder = make("healthy", root, now_unix=time.time())
    browser = Browser(root / "browser")
    with served(str(folder.path)) as (port, _, _):
        browser.open(f"http://127.0.0.1:{port}{path_of(port)}")
        browser.wait("+document.body.dataset.ticks > 0")
        rules = [
            ["INPUT", "-i", "lo", "-p", "tcp", f"--{side}", str(port), "-j", "DROP"] for side in ("dport", "sport")
        ]
        try:
            for rule in rules:
                subprocess.run(["iptables", "-I", *rule], check=True)
            for step in range(121, 121 + CUT_S):
                write_metrics(folder, [metrics_of(step, steps=1000)])
                threading.Event().wait(1)
        finally:
            for rule in rules:
                subprocess.run(["iptables", "-D", *rule], check=False)
        began_s = time.perf_counter()
        last = f"'{120 + CUT_S}'"
        while not browser.run(f"return document.querySelector('#part-tiles').innerText.includes({last})"):
            if time.perf_counter() - began_s > 3 * CUT_S:
                break
            threading.Event().wait(0.1)
        caught_up_s = time.perf_counter() - began_s
        drawn = browser.steps_drawn()
    browser.close()
    return {
        "cut_s": CUT_S,
        "caught_up_s": caught_up_s,
        "steps_missing": 120 + CUT_S - len(set(drawn)),
        "steps_double": len(drawn) - len(set(drawn)),
    }


def many_tabs(root: Path) -> dict[str, object]:
    """Eight tabs of one browser on a run that goes on; each is looked at in turn. Needs Debian's Chromium."""
    folder = make("healthy", root, now_unix=time.time())
    browser = Browser(root / "browser")
    waits, wrong, hidden = [], 0, 0
    with served(str(folder.path)) as (port, _, _):
        tabs = [browser.new_tab() for _ in range(NUM_TABS)]
        for tab in tabs:
            browser.to_tab(tab)
            browser.open(f"http://127.0.0.1:{port}{path_of(port)}")
            browser.wait("+document.body.dataset.ticks > 0")
        last = 120
        for tab in tabs:
            last += 1
            write_metrics(folder, [metrics_of(last, steps=1000)])
            began_s = time.perf_counter()
            browser.to_tab(tab)
            hidden += browser.run("return document.hidden")
            browser.wait(f"document.querySelector('#part-tiles').innerText.includes('{last}')")
            while (drawn := browser.steps_drawn()) != list(range(last, 0, -1)):
                if time.perf_counter() - began_s > CUT_S:
                    print(f"{NUM_TABS} tabs: drawn {drawn[:12]} at step {last}", file=sys.stderr)
                    wrong += 1
                    break
            waits.append(time.perf_counter() - began_s)
    browser.close()
    return {"tabs": NUM_TABS, "shown_s": max(waits), "tabs_with_lost_or_double_steps": wrong, "hidden_in_front": hidden}


def in_a_browser(root: Path, *, num_steps: int, num_ranks: int, num_lag: int, a_host: int) -> dict[str, object]:
    """What a person waits for: the page's file from disk and the page of a server. Needs Debian's Chromium.

    Paints are the browser's own first contentful paint. Map and charts are timed from the navigation's start, the
    drawer from the key.
    """
    folder = long_run(root, num_steps=num_steps, num_ranks=num_ranks, num_lag=num_lag, a_host=a_host)
    to = root / "page.html"
    subprocess.run([*EMBERWARD, "report", str(folder.path), "--html", str(to)], check=False, capture_output=True)
    browser = Browser(root / "browser")
    now = "return performance.now() / 1000"

    def painted_s() -> object:
        browser.wait("performance.getEntriesByName('first-contentful-paint').length")
        return browser.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")

    browser.open(f"file://{to}")
    row: dict[str, object] = {"file_painted_s": painted_s()}
    with served(str(folder.path)) as (port, _, _):
        browser.open(f"http://127.0.0.1:{port}{path_of(port)}")
        browser.wait("document.querySelector('#lag-map canvas')")
        row["map_s"] = browser.run(now)
        browser.wait("document.querySelectorAll('.chart canvas').length === 4")
        row["charts_s"] = browser.run(now)
        row["painted_s"] = painted_s()
        began_s = browser.run(now)
        browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'r'}))")
        browser.wait("!document.querySelector('#drawer').hidden")
        row["drawer_s"] = browser.run(now) - began_s
        row["heap_bytes"] = browser.run("return performance.memory.usedJSHeapSize")
        row["errors"] = len(browser.console())
    browser.close()
    return row


def watch(root: Path, *, num_steps: int, num_ranks: int) -> dict[str, object]:
    """Processor time of ``emberward watch`` in a terminal of 120 x 40, a step a second; its start is left out."""
    folder = long_run(root, num_steps=num_steps, num_ranks=num_ranks, num_lag=1024, a_host=8)
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (40, 120))
    drawn = 0
    child = subprocess.Popen([*EMBERWARD, "watch", str(folder.path)], stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)

    def read() -> None:
        nonlocal drawn
        while True:
            try:
                drawn += len(os.read(leader, 1 << 16))
            except OSError:  # the terminal of a process that has ended
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        process = psutil.Process(child.pid)
        while not drawn:
            threading.Event().wait(0.1)
        threading.Event().wait(3)
        started_s, drawn_before = sum(process.cpu_times()[:2]), drawn
        began_s = time.perf_counter()
        for step in range(num_steps + 1, num_steps + 1 + WATCH_S):
            write_metrics(folder, [metrics_of(step, steps=2 * num_steps)])
            say(folder, "train", step, 2 * num_steps, age_s=0, now_unix=time.time())
            threading.Event().wait(1)
        apart_s, spent_s = time.perf_counter() - began_s, sum(process.cpu_times()[:2]) - started_s
        assert child.poll() is None
    finally:
        child.terminate()
        child.wait(20)
        os.close(leader)
    return {
        "seconds": apart_s,
        "share_of_a_core": spent_s / apart_s,
        "start_processor_s": started_s,
        "bytes_a_second": (drawn - drawn_before) / apart_s,
    }


CASES = {
    "watch, 8 ranks": lambda root: watch(root, num_steps=2_000, num_ranks=8),
    "watch, 100k steps x 1,024 ranks": lambda root: watch(root, num_steps=100_000, num_ranks=1024),
    "disk to screen": disk_to_screen,
    "100k steps x 1,024 ranks": lambda root: first_screen(root, num_steps=100_000, num_ranks=1024, num_lag=8192),
    "200 runs": list_of_runs,
    "spike in 1,000,000": spike,
    "wire cut for 60 s": wire_cut,
    "8 tabs": many_tabs,
    "100k steps x 1,024 ranks in a browser": lambda root: in_a_browser(
        root, num_steps=100_000, num_ranks=1024, num_lag=8192, a_host=8
    ),
    "16,384 ranks in a browser": lambda root: in_a_browser(
        root, num_steps=2_000, num_ranks=16_384, num_lag=512, a_host=8
    ),
    "16,384 ranks": lambda root: first_screen(root, num_steps=2_000, num_ranks=16_384, num_lag=512, a_host=8),
}


def main() -> None:
    """Runs the cases that this round lacks and writes each figure at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--only", nargs="*", choices=list(CASES), help="these cases alone")
    options = parser.parse_args()
    results = Results(
        "window",
        what="the page of a run: first screen, file, spike, list and live steps",
        measures=["src/emberward/web", "src/emberward/report/_glance.py", "src/emberward/report/_lag_file.py"],
        settings={"viewers": NUM_VIEWERS, "cores": os.cpu_count()},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for name, case in CASES.items():
        if results.has(name) or (options.only and name not in options.only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            row = case(Path(scratch))
        results.add(name, {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    results.summarise({name: {k: v for k, v in row.items() if k not in ("key", "at", "commit", "load")}
                       for name, row in results.latest().items()})  # fmt: skip


if __name__ == "__main__":
    main()
