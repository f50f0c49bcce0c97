"""Replays every incident and its twin, and writes docs/measured/incidents.json.

Usage: python tools/campaign_incidents.py [NAME ...]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from measured import Results, add_options

from emberward.testing import INCIDENTS, Incident, IncidentRunner, show


def tell(text: str) -> None:
    """Shows what happens while it does."""
    sys.stderr.write(text + "\n")


def replay(incident: Incident) -> dict[str, object]:
    """Verdicts and seconds of the incident and its twin, played in one folder."""
    with tempfile.TemporaryDirectory(prefix="emberward-incident-") as folder:
        theatre = IncidentRunner(folder=Path(folder), environment=dict(os.environ), tell=tell)
        disaster = show(incident, theatre, is_twin=False)
        twin = show(incident, theatre, is_twin=True)
    first = disaster.findings[0] if disaster.findings else None
    return {
        "verdict": None if first is None else first.to_json(),
        "wrong": disaster.wrong,
        "seconds": round(disaster.seconds, 1),
        "twin_wrong": twin.wrong,
        "twin_seconds": round(twin.seconds, 1),
    }


def main() -> int:
    """Exit code 1 when a verdict is not the right one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "incidents",
        what="each incident and its healthy twin, replayed for real",
        measures=[
            "src/emberward/testing",
            "src/emberward/sources",
            "src/emberward/diagnose",
            "src/emberward/supervise",
        ],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for incident in INCIDENTS:
        if incident.name in options.names or (not options.names and not results.has(incident.name)):
            results.add(incident.name, replay(incident))
    wrong = [name for name, each in results.latest().items() if each["wrong"] or each["twin_wrong"]]
    results.summarise({"wrong": wrong})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
