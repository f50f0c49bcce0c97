"""A process that has torch loaded and forks ranks of the programs here: a start costs milliseconds, not seconds.

``python nursery.py`` reads a JSON object a line, ``{"argv": [...], "env": {...}, "log": PATH, "cwd": PATH}``, and
answers ``{"pid": N}``; whenever a rank ends it writes ``{"pid": N, "exit": CODE}``. A rank leaves the loop below and
runs its program as Python would run a script: it ends by the interpreter's own way out.
"""

import json
import os
import runpy
import select
import signal
import sys

import torch
import torch.distributed
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.nn.parallel
import torch.utils.data  # noqa: F401 (loaded here for all ranks)


def reap():
    """Tells of the ranks that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        os.write(1, json.dumps({"pid": pid, "exit": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def next_job():
    """The next line from outside; None when there will be none."""
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([0], [], [], 0.1)
        reap()
        if ready:
            part = os.read(0, 65536)
            if not part:
                return None
            data += part
    return json.loads(data)


def become_rank(job):
    """Makes this forked process look like one that was started for the job."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    null = os.open("/dev/null", os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv = job["argv"]
    sys.path.insert(0, os.path.dirname(job["argv"][0]))  # noqa: PTH120 (as Python itself does it)


while True:
    job = next_job()
    if job is None:
        os._exit(0)
    child = os.fork()
    if child == 0:
        break
    os.write(1, json.dumps({"pid": child}).encode() + b"\n")

become_rank(job)
runpy.run_path(job["argv"][0], run_name="__main__")
