"""Launches stand-ins: ``launcher_child.py FOLDER GRACE_S BEHAVIOUR...``; prints the result as JSON."""

import json
import os
import sys
from pathlib import Path

from emberward.findings import ConfigError
from emberward.report import RunFolder
from emberward.supervise import LaunchPlan, launch

FOLDER, GRACE_S, BEHAVIOURS = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
AGENT = str(Path(__file__).with_name("agent_child.py"))
plan = LaunchPlan(
    folder=RunFolder(path=FOLDER),
    num_ranks=len(BEHAVIOURS),
    command=(sys.executable, AGENT, str(FOLDER), *BEHAVIOURS),
    environment=dict(os.environ),
    why="a test",
    config=os.environ.get("TEST_CONFIG", "c1"),
    grace_s=GRACE_S,
)
try:
    result = launch(plan, on_progress=lambda progress, steps: None)
except ConfigError as error:
    sys.stdout.write(json.dumps({"code": error.code, "text": error.text()}))
    raise SystemExit(error.exit_code) from error
value = {
    "outcome": result.outcome.value,
    "attempt": result.attempt,
    "seconds": result.seconds,
    "findings": [finding.to_json() for finding in result.findings],
    "death": result.death,
    "num_ended": result.num_ended,
}
sys.stdout.write(json.dumps(value))
raise SystemExit(result.exit_code)
