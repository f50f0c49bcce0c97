"""Four hosts as network namespaces, each with a link of 200 Mb/s: is the one whose link turns bad named, and when.

    .venv/bin/python tools/campaign_links.py [--case half|loss|same]

The real agents post into a folder and try each other over real sockets; no ranks run. ``half``: the fourth host sends
at half the speed. ``loss``: 1% of its packets are dropped, one at a time (no segmentation offload). ``same``:
nothing happens. Needs root and iproute2, iptables.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import Results, add_options

ROOT = Path(__file__).parents[1]
NUM_HOSTS = 4
FAULT_AT_S, LIMIT_S = 45.0, 75.0
SHAPE = ("burst", "64k", "latency", "300ms")
AGENT = """
import json, sys, time
from emberward.sources.live import WatchReport
from emberward.supervise import Node, NodeAgent
agent = NodeAgent(Node(host=sys.argv[1], address=sys.argv[2], mailbox=sys.argv[3]))
end = time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    for finding in agent.step(WatchReport(), ranks=[0]).findings:
        print(json.dumps([time.time(), finding.code, list(finding.hosts), finding.message]), flush=True)
    time.sleep(1.0)
agent.leave()
"""


def run(case: str, folder: Path) -> dict[str, Any]:
    """What each host found, as a row of the results."""
    sys.path.insert(0, str(ROOT / "tests"))
    from cluster.hosts import Hosts  # type: ignore[import-not-found]  # below tests/, which is no package of ours

    hosts = Hosts(NUM_HOSTS)

    def inside(index: int, *words: str) -> None:
        subprocess.run(["nsenter", f"--net=/run/netns/{hosts.names[index]}", *words], check=True, capture_output=True)

    def shape(index: int, verb: str, rate: str) -> None:
        inside(index, "tc", "qdisc", verb, "dev", "eth0", "root", "tbf", "rate", rate, *SHAPE)

    try:
        hosts.open()
        for index in range(NUM_HOSTS):
            inside(index, "ip", "link", "set", "dev", "eth0", "gso_max_size", "1500", "gso_max_segs", "1")
            shape(index, "add", "200mbit")
        started = []
        for index in range(NUM_HOSTS):
            place = (f"node{index + 1}", hosts.address(index), str(folder / "posts"), str(FAULT_AT_S + LIMIT_S))
            words = [sys.executable, "-c", AGENT, *place]
            started.append(hosts.start(index, words, log=folder / f"host{index}.log"))
        time.sleep(FAULT_AT_S)
        began = time.time()
        if case == "half":
            shape(NUM_HOSTS - 1, "change", "100mbit")
        if case == "loss":
            drop = ("-m", "statistic", "--mode", "random", "--probability", "0.01", "-j", "DROP")
            inside(NUM_HOSTS - 1, "iptables", "-A", "OUTPUT", "-o", "eth0", *drop)
        for process in started:
            process.wait(LIMIT_S + 60.0)
    finally:
        hosts.close()
    found = []
    for index in range(NUM_HOSTS):
        for line in (folder / f"host{index}.log").read_text().splitlines():
            if line.startswith("["):
                at, code, names, message = json.loads(line)
                found.append(
                    {"by": index + 1, "after_s": round(at - began, 1), "code": code, "hosts": names, "what": message}
                )
    right = [each for each in found if each["hosts"] == [f"node{NUM_HOSTS}"] and each["after_s"] >= 0.0]
    return {
        "case": case,
        "found": found,
        "hosts_that_named_it": len({each["by"] for each in right}),
        "wrong": len(found) - len(right) if case != "same" else len(found),
        "named_after_s": min((each["after_s"] for each in right), default=None),
    }


def main() -> int:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=("half", "loss", "same"), action="append")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "links",
        what="namespace hosts of which one link turns slow or loses packets: who is named, and when",
        measures=["src/emberward/supervise/_probe.py", "src/emberward/supervise/_slow_links.py"],
        settings={"num_hosts": NUM_HOSTS, "rate": "200mbit"},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    for case in asked.case or ("half", "loss", "same"):
        with tempfile.TemporaryDirectory(prefix="links-") as folder:
            row = run(case, Path(folder))
        results.add(case, row)
        sys.stdout.write(f"{case}: {row}\n")
    results.summarise(
        {
            case: {name: row[name] for name in ("hosts_that_named_it", "wrong", "named_after_s")}
            for case, row in results.latest().items()
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
