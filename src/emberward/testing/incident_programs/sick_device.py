"""A probe of devices that are not there: python sick_device.py FOLDER FAULT DEVICE.

breaks: the device works alone and dies in every set of two or more; devices 0 to 5 are in use for the first tests.
slow: the device is 5% slower. none: nothing is wrong.
"""
import json
import os
import random
import signal
import sys

folder, fault, sick = sys.argv[1:4]
me = os.environ["EMBERWARD_HOST"] + ":" + os.environ["EMBERWARD_DEVICES"].split(",")[int(os.environ["LOCAL_RANK"])]
together = int(os.environ["WORLD_SIZE"]) > 1
if fault == "breaks":
    asked = os.path.join(folder, me.replace(":", "-"))
    if int(me.split(":")[1]) <= 5 and not os.path.exists(asked):
        open(asked, "w").close()
        print(json.dumps({"busy": True}))
        sys.exit()
    if me == sick and together:
        os.kill(os.getpid(), signal.SIGSEGV)
value = 149.0 * (1 + random.Random(os.urandom(8)).gauss(0, 0.004))
if fault == "slow" and me == sick:
    value *= 0.95
print(json.dumps({"ok": True, "value": value, "unit": "TFLOP/s", "exercised": "all"}))
