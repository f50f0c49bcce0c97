"""Simulated clusters by the thousand: the real agents, collector and policy on a fake clock and network.

    .venv/bin/python tools/campaign_cluster.py [--seeds 1000] [--large 2048] [--for-s 600] [--jobs 2]

What is real, what is fake, and the invariants: `emberward.testing._cluster`. Seeds run in batches of 50, of clusters
of 3 to 16 hosts. Then what letters cost: bytes a host and second of a cluster in which nothing happens, what a
collector takes by HTTP on this machine, and its memory with the posts of 2,048 hosts of 8 ranks. `--large N` adds one
cluster of N hosts, of which one loses its power.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from measured import Results, add_options

from emberward.supervise import PostOffice
from emberward.supervise._mailbox import http_sender
from emberward.supervise.collector import Collector
from emberward.testing import ClusterSimulation, DaysSimulation, Disturbance, Trouble

BATCH = 50
SIZES = (3, 4, 5, 6, 8, 10, 12, 16)
NUM_HOSTS, RANKS_PER_HOST = 2048, 8
PROBE_S = 5.0
LARGE_S = 40.0
DAYS, NUM_FAULTS = 10, 24


def size_of(value: Any) -> int:
    """Bytes of a letter or an answer, as JSON."""
    return len(json.dumps(value).encode())


def run_batch(first: int) -> dict[str, Any]:
    """Seeds `first` to first + BATCH - 1 as a row of the results."""
    troubles: Counter[str] = Counter()
    disturbances: Counter[str] = Counter()
    agreed: list[float] = []
    broken = []
    named: list[float] = []
    for seed in range(first, first + BATCH):
        course = ClusterSimulation(seed, num_hosts=SIZES[seed % len(SIZES)]).run()
        troubles[course.trouble.value] += 1
        disturbances[course.disturbance.value] += 1
        what = f"seed {seed}, {course.num_hosts} hosts, {course.trouble}, {course.disturbance}"
        broken += [f"{what}: {each}" for each in course.broken[:3]]
        agreed += [] if course.agreed_after_s is None else [round(course.agreed_after_s, 1)]
        named += [] if course.named_after_s is None else [round(course.named_after_s, 1)]
    return {
        "num_seeds": BATCH,
        "troubles": dict(troubles),
        "disturbances": dict(disturbances),
        "broken": broken,
        "named_after_s": sorted(named),
        "agreed_after_s": sorted(agreed),
    }


def run_days(first: int) -> dict[str, Any]:
    """Seeds `first` to first + DAYS - 1 of days with NUM_FAULTS faults each, as a row of the results."""
    broken, shares, strikes, back, faults = [], [], 0, 0, Counter[str]()
    for seed in range(first, first + DAYS):
        with tempfile.TemporaryDirectory(prefix="days-") as place:
            days = DaysSimulation(seed, Path(place)).run(num_faults=NUM_FAULTS)
        broken += [f"days {seed}: {each}" for each in days.broken[:3]]
        faults.update(days.faults)
        strikes, back = strikes + days.num_strikes, back + days.num_back
        shares += [] if days.goodput is None else [round(days.goodput.share, 3)]
    return {"days": DAYS, "broken": broken, "faults": dict(faults), "strikes": strikes, "back": back, "shares": shares}


def key_of(first: int) -> str:
    """The name of a batch's row."""
    return f"seeds {first} to {first + BATCH - 1}"


def run_large(num_hosts: int) -> dict[str, Any]:
    """One cluster of `num_hosts`, of which one loses its power."""
    began_s = time.process_time()
    course = ClusterSimulation(1, num_hosts=num_hosts, trouble=Trouble.POWER, disturbance=Disturbance.NOTHING).run(
        seconds=LARGE_S
    )
    seconds = time.process_time() - began_s
    return {
        "num_hosts": num_hosts,
        "broken": list(course.broken[:3]),
        "named_after_s": course.named_after_s,
        "num_letters": course.num_letters,
        "agreed_after_s": course.agreed_after_s,
        "processor_s": round(seconds, 1),
        "processor_s_a_simulated_second": round(seconds / LARGE_S, 2),
    }


def measure_quiet(num_hosts: int) -> dict[str, Any]:
    """Bytes a host and second, letter and answer, between the 10th and the 20th second of a quiet cluster."""
    courses = [
        ClusterSimulation(
            3,
            num_hosts=num_hosts,
            trouble=Trouble.NOTHING,
            disturbance=Disturbance.NOTHING,
            count_bytes=size_of,
        ).run(seconds=seconds)
        for seconds in (10.0, 20.0)
    ]
    letters = courses[1].num_letters - courses[0].num_letters
    return {
        "num_hosts": num_hosts,
        "letters_a_host_and_second": round(letters / num_hosts / 10, 2),
        "bytes_a_letter_with_its_answer": round((courses[1].letter_bytes - courses[0].letter_bytes) / letters),
    }


def letter(host: int, number: int, session: str | None, since: int, snapshot: object = None) -> dict[str, Any]:
    """A letter of one of NUM_HOSTS hosts; a first one is whole."""
    changes: dict[str, Any] = {}
    if session is None:
        ranks = list(range(RANKS_PER_HOST * host, RANKS_PER_HOST * (host + 1)))
        reached = {f"n{(host + step) % NUM_HOSTS:05d}": True for step in range(1, 33)}
        fetch_s = dict.fromkeys(reached, 0.034)
        changes = {"address": f"10.0.0.{host}", "port": 1, "ranks": ranks, "reached": reached, "fetch_s": fetch_s}
        changes |= {"is_still": False, "snapshot": snapshot, "lost": {}, "steps": [], "facts": None}
    return {
        "host": f"n{host:05d}",
        "writer": str(host),
        "number": number,
        "session": session,
        "since": since,
        "is_whole": session is None,
        "changes": changes,
    }


def measure_memory() -> dict[str, Any]:
    """What a collector keeps for NUM_HOSTS hosts, without looks and with one of 16 KiB of each."""
    found = {}
    for name, snapshot in (("without_looks", None), ("with_looks", "x" * (16 << 10))):
        tracemalloc.start()
        office = PostOffice("one")
        for host in range(NUM_HOSTS):
            # As it arrives: parsed from JSON, nothing shared.
            told = json.loads(json.dumps(letter(host, 1, None, 0, snapshot and f"{host}{snapshot}")))
            office.take({**told, "session": "one", "since": 10**9, "is_whole": False}, now_s=0.0)
        found[f"megabytes_{name}"] = round(tracemalloc.get_traced_memory()[0] / 1e6, 1)
        tracemalloc.stop()
    return found


def serve(told: Connection) -> None:
    """A collector in a process of its own: tells its port, and at the end the processor time that it took."""
    with Collector(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        told.send(server.server_port)
        told.recv()
        server.shutdown()
        thread.join()
        told.send(time.process_time())


def measure_rate() -> dict[str, Any]:
    """What one collector, a process of its own, takes by HTTP of NUM_HOSTS hosts that each keep a connection.

    The clients are all in this process, which costs more than the collector: the rate is that of both on this machine,
    `processor_us_a_letter` the collector's own.
    """
    ours, theirs = Pipe()
    child = Process(target=serve, args=(theirs,))
    child.start()
    port = ours.recv()
    sends = [http_sender(f"http://127.0.0.1:{port}/") for _ in range(NUM_HOSTS)]
    session, version, count = None, 0, 0
    for number in (1, 2):
        for host, send in enumerate(sends):
            said = send({**letter(host, number, None, 0), "session": session})
            session, version = said["session"], int(said.get("version", 0))
    began_s, began_child_s = time.monotonic(), psutil.Process(child.pid).cpu_times()
    number, delays = 2, []
    while time.monotonic() - began_s < PROBE_S:
        number += 1
        for host, send in enumerate(sends):
            sent_s = time.monotonic()
            send(letter(host, number, session, version))
            delays.append(time.monotonic() - sent_s)
            count += 1
            if time.monotonic() - began_s >= PROBE_S:
                break
    seconds = time.monotonic() - began_s
    after = psutil.Process(child.pid).cpu_times()
    ours.send("end")
    ours.recv()
    child.join()
    used_s = after.user + after.system - began_child_s.user - began_child_s.system
    return {
        "num_connections": NUM_HOSTS,
        "letters_a_second_with_the_clients": round(count / seconds),
        "processor_us_a_letter": round(used_s / count * 1e6),
        "letters_a_second_of_one_core": round(count / used_s),
        "answer_ms_median": round(statistics.median(delays) * 1000, 2),
    }


def main() -> int:
    """The console program; 1 when an invariant was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--large", type=int, default=0, help="also one cluster of so many hosts")
    parser.add_argument("--for-s", type=float, default=float("inf"), help="begin no batch after so many seconds")
    parser.add_argument("--days", type=int, default=60, help="seeds of days with planner and ledger")
    parser.add_argument("--jobs", type=int, default=1, help="batches at once")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "cluster",
        what="simulated clusters: invariants over seeds, what letters between hosts cost",
        measures=[
            "src/emberward/supervise",
            "src/emberward/testing/_cluster.py",
            "src/emberward/testing/_cluster_world.py",
            "src/emberward/testing/_cluster_days.py",
            "src/emberward/runs/_ledger.py",
        ],
        settings={"sizes": list(SIZES)},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    began_s = time.monotonic()
    todo: list[tuple[str, Callable[[int], dict[str, Any]], int]] = [
        *((f"days {first} to {first + DAYS - 1}", run_days, first) for first in range(0, asked.days, DAYS)),
        *((key_of(first), run_batch, first) for first in range(0, asked.seeds, BATCH)),
    ]
    todo = [each for each in todo if not results.has(each[0])]
    with ProcessPoolExecutor(asked.jobs) as pool:
        for some in (todo[at : at + asked.jobs] for at in range(0, len(todo), asked.jobs)):
            if time.monotonic() - began_s > asked.for_s:
                break
            begun = [(key, pool.submit(run, first)) for key, run, first in some]
            for key, row in ((key, future.result()) for key, future in begun):
                results.add(key, row)
                sys.stdout.write(f"{key}: {row['broken'] or 'all invariants held'}\n")
                sys.stdout.flush()
    for key, measure in (("memory", measure_memory), ("rate", measure_rate), ("quiet", lambda: measure_quiet(64))):
        if not results.has(key):
            results.add(key, measure())
    if asked.large:
        results.add(f"{asked.large} hosts", run_large(asked.large))
    rows = results.latest()
    batches = [row for row in rows.values() if "troubles" in row]
    of_days = [row for row in rows.values() if "days" in row]
    named = [seconds for row in batches for seconds in row["named_after_s"]]
    agreed = [seconds for row in batches for seconds in row["agreed_after_s"]]
    broken = [each for row in rows.values() for each in row.get("broken", ())]
    results.summarise(
        {
            "seeds": sum(row["num_seeds"] for row in batches),
            "broken": len(broken),
            "days": sum(row["days"] for row in of_days),
            "days_faults": dict(sum((Counter(row["faults"]) for row in of_days), Counter())),
            "days_strikes": sum(row["strikes"] for row in of_days),
            "days_hosts_back": sum(row["back"] for row in of_days),
            "days_goodput_median": statistics.median([share for row in of_days for share in row["shares"]] or [0.0]),
            "troubles": dict(sum((Counter(row["troubles"]) for row in batches), Counter())),
            "disturbances": dict(sum((Counter(row["disturbances"]) for row in batches), Counter())),
            "named_after_s_median": statistics.median(named) if named else None,
            "named_after_s_most": max(named, default=None),
            "agreed_after_s_median": statistics.median(agreed) if agreed else None,
            "agreed_after_s_most": max(agreed, default=None),
            **{key: {k: v for k, v in rows[key].items() if k not in ("key", "when")} for key in ("memory", "rate")},
            "quiet": {k: v for k, v in rows["quiet"].items() if isinstance(v, int | float)},
        }
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
