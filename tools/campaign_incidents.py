"""Replays every incident and its twin, and writes docs/measured/incidents.json.

Usage: python tools/campaign_incidents.py [NAME ...]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from emberward.testing import INCIDENTS, Incident, Theatre, show

OUT = Path(__file__).parent.parent / "docs" / "measured" / "incidents.json"


def tell(text: str) -> None:
    """Shows what happens while it does."""
    sys.stderr.write(text + "\n")


def replay(incident: Incident) -> dict[str, object]:
    """Verdicts and seconds of the incident and its twin, played in one folder."""
    with tempfile.TemporaryDirectory(prefix="emberward-incident-") as folder:
        theatre = Theatre(folder=Path(folder), environment=dict(os.environ), tell=tell)
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
    wanted = sys.argv[1:] or [incident.name for incident in INCIDENTS]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    played = {incident.name: replay(incident) for incident in INCIDENTS if incident.name in wanted}
    result = {
        "what": "each incident and its healthy twin, replayed for real; seconds on a shared machine of 2 cores",
        "commit": commit.strip(),
        "incidents": played,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if any(each["wrong"] or each["twin_wrong"] for each in played.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
