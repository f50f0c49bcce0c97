"""Forks programs from a process that has their modules loaded. ``python warm_server.py FD MODULE ...``; see warm.py.

A job comes as one message of JSON with three file descriptors, the program's standard streams; the answer is its pid.
When a program has ended another message gives its exit code. A program leaves the loop below and runs as Python would
run it, and it ends by the interpreter's own way out. Ends itself, and nothing else, once the other side has closed.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

MOST_BYTES = 1 << 17


def reap(peer):
    """Gives the exit codes of programs that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        peer.send(json.dumps({"pid": pid, "exit": os.waitstatus_to_exitcode(status)}).encode())


def become(job, streams):
    """Makes this forked process look like one that was started for the job."""
    if job["session"]:
        os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for target, source in enumerate(streams):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv = job["argv"]
    sys.path.insert(0, os.path.dirname(job["argv"][0]) if job["module"] is None else job["cwd"])  # noqa: PTH120


def serve(peer):
    """The next job of this process, which is then a fork; None when there will be none."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([peer, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            reap(peer)
        if peer not in ready:
            continue
        message, streams, _, _ = socket.recv_fds(peer, MOST_BYTES, 3)
        if not message:
            return None
        child = os.fork()
        if child == 0:
            peer.close()
            os.close(awake)
            os.close(wake)
            job = json.loads(message)
            become(job, streams)
            return job
        for stream in streams:
            os.close(stream)
        peer.send(json.dumps({"started": child}).encode())


# What is loaded stays: a collector that looked through it would copy it into every fork, most of all at a fork's end.
gc.disable()
for name in sys.argv[2:]:
    importlib.import_module(name)
gc.freeze()
gc.enable()
job = serve(socket.socket(fileno=int(sys.argv[1])))
if job is None:
    os._exit(0)
if job["module"] is None:
    runpy.run_path(job["argv"][0], run_name="__main__")
else:
    runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
