"""Judges and replays many random programs and writes docs/measured/replay.json.

Usage: python tools/campaign_replay.py [FIRST_SEED] [NUM_PROGRAMS]
"""

import argparse
import dataclasses
import sys
import time

from measured import Results, add_options

from emberward.testing import run_campaign


def main() -> int:
    """Exit code 1 when judge and replay disagree somewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=2_000)
    add_options(parser)
    options = parser.parse_args()
    began = time.monotonic()
    campaign = run_campaign(range(options.first, options.first + options.count))
    results = Results(
        "replay",
        what="random programs judged by match and executed by testing.ThreadReplayer",
        measures=["src/emberward/match", "src/emberward/testing"],
        settings={"seeds": [options.first, options.first + options.count - 1]},
        is_fresh=options.fresh,
        folder=options.into,
    )
    figures = {"seconds": round(time.monotonic() - began, 1), **dataclasses.asdict(campaign)}
    results.add("all", figures)
    results.summarise(figures)
    return 1 if campaign.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
