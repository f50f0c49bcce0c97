"""Three hosts as network namespaces train, a fourth stands by, and one turns slow: is it named, when, and left out.

    .venv/bin/python tools/campaign_links.py [--case half|loss|processor|none|brief]

`emberward train --hosts` with real ranks on links of 200 Mb/s, `--replace-slow 2`. ``half``: the second host sends at
half the speed. ``loss``: the switch drops 1% of its packets, one at a time (no segmentation offload). ``processor``:
all that runs on it has 8% of a processor, where the others have 30% each (quota and weight of their control groups,
so that what else the machine does matters little). Look-alikes: ``none``, and ``brief``, half the speed and 30% of a
processor for BRIEF_S. The curve is held against that of three ranks of one machine. Needs root and iproute2, nftables.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measured import Results, add_options

ROOT = Path(__file__).parents[1]
STRUCK, BRIEF_S = 1, 5.0
LIMIT_S, LOOK_ALIKE_S = 150.0, 60.0
HIDDEN = {"processor": 192}
USUAL_HIDDEN = 32
"""Steps of which the wire is a good part; with more a processor is."""
FAULTS = ("half", "loss", "processor")
CASES = (*FAULTS, "none", "brief")


def wait(condition: Callable[[], object], what: str, limit_s: float) -> None:
    """Until `condition()` is true; raises TimeoutError after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


def run(case: str, folder: Path) -> dict[str, Any]:
    """What was found, as a row of the results."""
    sys.path.insert(0, str(ROOT / "tests"))
    from cluster.slow_job import Fault, SlowJob  # type: ignore[import-not-found]  # below tests/, no package of ours
    from ranks.runs import write_text  # type: ignore[import-not-found]

    text = write_text(folder / "data" / "text")
    job = SlowJob(folder, text, hidden=HIDDEN.get(case, USUAL_HIDDEN), num_spares=1)
    struck = job.machines.hosts.names[STRUCK]
    row: dict[str, Any] = {"case": case, "named_after_s": None, "replaced_after_s": None, "on_after_s": None}
    try:
        wait(lambda: job.num_steps() >= 30 or job.process.poll() is not None, "steps", LIMIT_S)
        before = job.num_steps()
        began_s = time.monotonic()
        job.strike(STRUCK, Fault(case))
        if case in FAULTS:
            try:
                wait(job.slow, "a name", LIMIT_S)
                row["named_after_s"] = round(time.monotonic() - began_s, 1)
                wait(job.ends, "a spare", LIMIT_S)
                row["replaced_after_s"] = round(time.monotonic() - began_s, 1)
                saved = job.num_steps()
                wait(lambda: job.num_steps() > saved + 5, "steps on the spare", LIMIT_S)
                row["on_after_s"] = round(time.monotonic() - began_s, 1)
            except TimeoutError as error:
                row["missed"] = str(error)
        else:
            time.sleep(BRIEF_S)
            job.heal(STRUCK)
            time.sleep(LOOK_ALIKE_S - BRIEF_S)
        row["exit_code"] = job.stop()
        found = job.slow()
        made, straight = job.curves(wait)
    finally:
        job.close()
    named = [each["hosts"] == [struck] for each in found]
    return row | {
        "found": [{"code": each["code"], "is_right": is_right, "what": each["message"].replace(struck, "STRUCK")}
                  for each, is_right in zip(found, named, strict=True)],
        "wrong": len(found) if case not in FAULTS else named.count(False),
        "steps": len(made), "steps_before": before, "is_bitwise": made == straight,
    }  # fmt: skip


def main() -> int:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES, action="append")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "links",
        what="namespace hosts that train, of which one turns slow or loses packets: is it named, when, and replaced",
        measures=[
            "src/emberward/supervise/_connections.py",
            "src/emberward/supervise/_probe.py",
            "src/emberward/supervise/_sent_again.py",
            "src/emberward/supervise/_slow_hosts.py",
            "src/emberward/supervise/_slow_links.py",
        ],
        settings={"num_hosts": 3, "num_spares": 1, "rate": "200mbit", "replace_slow_s": 2},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    for case in asked.case or CASES:
        with tempfile.TemporaryDirectory(prefix="links-") as folder:
            row = run(case, Path(folder))
        results.add(case, row)
        sys.stdout.write(f"{case}: {row}\n")
    names = ("named_after_s", "replaced_after_s", "on_after_s", "wrong", "is_bitwise")
    results.summarise({case: {name: row[name] for name in names} for case, row in results.latest().items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
