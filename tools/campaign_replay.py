"""Judges and replays many random programs and writes docs/measured/replay.json.

Usage: python tools/campaign_replay.py [FIRST_SEED] [NUM_PROGRAMS]
"""

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

from emberward.testing import run_campaign

OUT = Path(__file__).parent.parent / "docs" / "measured" / "replay.json"


def main() -> int:
    """Exit code 1 when judge and replay disagree somewhere."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    began = time.monotonic()
    campaign = run_campaign(range(first, first + count))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    result = {
        "what": "random programs judged by match and executed by testing.ThreadReplayer",
        "commit": commit.strip(),
        "seeds": [first, first + count - 1],
        "seconds": round(time.monotonic() - began, 1),
        **dataclasses.asdict(campaign),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if campaign.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
