"""Simulated clusters by the thousand: the real agents, collector and policy on a fake clock and network.

    .venv/bin/python tools/campaign_cluster.py [--seeds 1000] [--large 2048] [--for-s 600]

What is real, what is fake, and the invariants: `emberward.testing._cluster`. Seeds run in batches of 50, of clusters
of 3 to 16 hosts. Then what letters cost: bytes a host and second of a cluster in which nothing happens, what a
collector takes by HTTP on this machine, and its memory with the posts of 2,048 hosts of 8 ranks. `--large N` adds one
cluster of N hosts, which takes minutes to hours.
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
import tracemalloc
from collections import Counter
from typing import Any

from measured import Results, add_options

from emberward.supervise import PostOffice
from emberward.supervise.collector import Collector
from emberward.testing import ClusterSimulation, Trouble

BATCH = 50
SIZES = (3, 4, 5, 6, 8, 10, 12, 16)
NUM_HOSTS, RANKS_PER_HOST = 2048, 8
PROBE_S = 5.0
NUM_CLIENTS = 8


def size_of(value: Any) -> int:
    """Bytes of a letter or an answer, as JSON."""
    return len(json.dumps(value).encode())


def run_batch(first: int) -> dict[str, Any]:
    """Seeds `first` to first + BATCH - 1 as a row of the results."""
    troubles: Counter[str] = Counter()
    broken = []
    named: list[float] = []
    for seed in range(first, first + BATCH):
        course = ClusterSimulation(seed, num_hosts=SIZES[seed % len(SIZES)]).run()
        troubles[course.trouble.value] += 1
        broken += [f"seed {seed}, {course.num_hosts} hosts, {course.trouble}: {each}" for each in course.broken[:3]]
        named += [] if course.named_after_s is None else [round(course.named_after_s, 1)]
    return {"num_seeds": BATCH, "troubles": dict(troubles), "broken": broken, "named_after_s": sorted(named)}


def run_large(num_hosts: int) -> dict[str, Any]:
    """One cluster of `num_hosts`, of which one loses its power."""
    began_s = time.monotonic()
    course = ClusterSimulation(1, num_hosts=num_hosts, trouble=Trouble.POWER).run()
    return {
        "num_hosts": num_hosts,
        "broken": list(course.broken[:3]),
        "named_after_s": course.named_after_s,
        "num_letters": course.num_letters,
        "seconds": round(time.monotonic() - began_s, 1),
    }


def measure_quiet(num_hosts: int) -> dict[str, Any]:
    """Bytes a host and second, letter and answer, between the 10th and the 20th second of a quiet cluster."""
    courses = [
        ClusterSimulation(3, num_hosts=num_hosts, trouble=Trouble.NOTHING, count_bytes=size_of).run(seconds=seconds)
        for seconds in (10.0, 20.0)
    ]
    letters = courses[1].num_letters - courses[0].num_letters
    return {
        "num_hosts": num_hosts,
        "letters_a_host_and_second": round(letters / num_hosts / 10, 2),
        "bytes_a_letter_with_its_answer": round((courses[1].letter_bytes - courses[0].letter_bytes) / letters),
    }


def letter(host: int, number: int, session: str | None, since: int, look: object = None) -> dict[str, Any]:
    """A letter of one of NUM_HOSTS hosts; a first one is whole."""
    changes: dict[str, Any] = {}
    if session is None:
        ranks = list(range(RANKS_PER_HOST * host, RANKS_PER_HOST * (host + 1)))
        reached = {f"n{(host + step) % NUM_HOSTS:05d}": True for step in range(1, 33)}
        fetch_s = dict.fromkeys(reached, 0.034)
        changes = {"address": f"10.0.0.{host}", "port": 1, "ranks": ranks, "reached": reached, "fetch_s": fetch_s}
        changes |= {"is_still": False, "look": look, "lost": {}, "steps": [], "facts": None}
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
    for name, look in (("without_looks", None), ("with_looks", "x" * (16 << 10))):
        tracemalloc.start()
        office = PostOffice("one")
        for host in range(NUM_HOSTS):
            # As it arrives: parsed from JSON, nothing shared.
            told = json.loads(json.dumps(letter(host, 1, None, 0, look and f"{host}{look}")))
            office.take({**told, "session": "one", "since": 10**9, "is_whole": False}, now_s=0.0)
        found[f"megabytes_{name}"] = round(tracemalloc.get_traced_memory()[0] / 1e6, 1)
        tracemalloc.stop()
    return found


def measure_rate() -> dict[str, Any]:
    """Letters a second that one collector takes by HTTP from NUM_CLIENTS clients, each for many of NUM_HOSTS hosts."""
    counts = [0] * NUM_CLIENTS
    with Collector(("127.0.0.1", 0)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for host in range(NUM_HOSTS):
            first = letter(host, 1, server.office.session, 10**9)
            server.office.take({**letter(host, 1, None, 0), **{k: first[k] for k in ("session", "since")}}, now_s=0.0)
        for host in range(NUM_HOSTS):
            # Renewed once, as a host that has been there for a second is.
            server.office.take(letter(host, 2, server.office.session, 10**9), now_s=time.monotonic())
        version = server.office.take(letter(0, 3, server.office.session, 10**9), now_s=time.monotonic())["version"]
        end_s = time.monotonic() + PROBE_S

        def write(client: int) -> None:
            number = 3
            while time.monotonic() < end_s:
                number += 1
                for host in range(client, NUM_HOSTS, NUM_CLIENTS):
                    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
                    connection.request("POST", "/", json.dumps(letter(host, number, server.office.session, version)))
                    connection.getresponse().read()
                    connection.close()
                    counts[client] += 1
                    if time.monotonic() >= end_s:
                        break

        clients = [threading.Thread(target=write, args=(client,)) for client in range(NUM_CLIENTS)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        server.shutdown()
    return {"letters_a_second": round(sum(counts) / PROBE_S), "clients_in_the_same_process": NUM_CLIENTS}


def main() -> int:
    """The console program; 1 when an invariant was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--large", type=int, default=0, help="also one cluster of so many hosts")
    parser.add_argument("--for-s", type=float, default=float("inf"), help="begin no batch after so many seconds")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "cluster",
        what="simulated clusters: invariants over seeds, what letters between hosts cost",
        measures=["src/emberward/supervise", "src/emberward/testing/_cluster.py"],
        settings={"sizes": list(SIZES)},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    began_s = time.monotonic()
    for first in range(0, asked.seeds, BATCH):
        key = f"seeds {first} to {first + BATCH - 1}"
        if results.has(key) or time.monotonic() - began_s > asked.for_s:
            continue
        row = run_batch(first)
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
    named = [seconds for row in batches for seconds in row["named_after_s"]]
    broken = [each for row in rows.values() for each in row.get("broken", ())]
    results.summarise(
        {
            "seeds": sum(row["num_seeds"] for row in batches),
            "broken": len(broken),
            "troubles": dict(sum((Counter(row["troubles"]) for row in batches), Counter())),
            "named_after_s_median": statistics.median(named) if named else None,
            "named_after_s_most": max(named, default=None),
            **{key: {k: v for k, v in rows[key].items() if k not in ("key", "when")} for key in ("memory", "rate")},
            "quiet": {k: v for k, v in rows["quiet"].items() if isinstance(v, int | float)},
        }
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
