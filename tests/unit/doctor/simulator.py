"""A probe for tests: devices that are sick in a planted way, and their look-alikes. Standard library only.

python simulator.py FAULT [DEVICE ...]      a device is host:number
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

fault, named = sys.argv[1], sys.argv[2:]
number = os.environ["EMBERWARD_DEVICES"].split(",")[int(os.environ["LOCAL_RANK"])]
me = f"{os.environ['EMBERWARD_HOST']}:{number}"
together = int(os.environ["WORLD_SIZE"]) > 1
sick = me in named
chance = random.Random(os.urandom(8))
value = 100 * (1 + chance.gauss(0, 0.005))
ok, tries = True, int(os.environ.get("SIMULATED_TRIES", "1"))

if fault == "segfault" and sick:
    os.kill(os.getpid(), signal.SIGSEGV)
elif fault == "hang" and sick:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
elif fault == "together" and sick and together:
    ok = False
elif fault == "now_and_then" and sick:
    ok = chance.random() > 0.3
elif fault.startswith("slow") and sick:
    value *= 1 - int(fault[4:]) / 100
elif fault == "two" and sick and me == named[0]:
    os.kill(os.getpid(), signal.SIGSEGV)
elif fault == "two" and sick:
    value *= 0.5
elif fault == "busy" and sick:
    sys.stdout.write(json.dumps({"busy": True}) + "\n")
    sys.exit()
elif fault == "rubbish" and (sick or not named):
    sys.stdout.write("\x00\xff not json {\n")
    sys.exit()
elif fault == "broken":
    raise SystemExit("no such library")
elif fault == "missing" and sick:
    raise SystemExit("ImportError: libcuda.so.1: cannot open shared object file")
elif fault == "fills" and sick:
    with Path("filling").open("wb") as file:
        file.write(os.urandom(4 << 20))
        file.flush()
        time.sleep(600)
elif fault == "forks":
    subprocess.Popen(["sleep", "600"], start_new_session=True)
elif fault == "noise":
    value *= 1 + chance.gauss(0, 0.06 if sick else 0.01)
elif fault == "slow_start":
    first = Path(named[0]) / me
    value *= 1.0 if first.exists() else 0.6
    first.touch()
elif fault == "link" and together:
    # A member cannot see its peers: each leaves its name beside those of its test.
    port = os.environ["MASTER_PORT"]
    folder = Path(named[0]) / f"{os.environ['WORLD_SIZE']}-{port}"
    folder.mkdir(exist_ok=True)
    (folder / me).touch()
    end_s = time.monotonic() + 20
    while len(list(folder.iterdir())) < int(os.environ["WORLD_SIZE"]) and time.monotonic() < end_s:
        time.sleep(0.01)
    ok = not set(named[1:]) <= {path.name for path in folder.iterdir()}
answer = {"ok": ok, "value": value, "unit": "GB/s", "exercised": "all", "tries": tries}
if fault == "no_value" and sick:
    del answer["value"], answer["unit"]
sys.stdout.write("a line before the answer\n")
sys.stdout.write(json.dumps(answer) + "\n")
