"""Reports to an experiment tracker over a line protocol."""
import json
import os
import socket
import threading
import time

import torch
import torch.distributed as dist


class LocalTracker(threading.Thread):
    """stands in for the tracking server of the lab; it speaks {"ok": n}"""

    def __init__(self, patience):
        super().__init__(daemon=True, name="tracker")
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.patience = patience

    def run(self):
        conn, _ = self.sock.accept()
        n = 0
        for line in conn.makefile():
            n += 1
            if n > self.patience:
                time.sleep(3600)
            conn.sendall(json.dumps({"ok": n}).encode() + b"\n")


class Tracker:
    def __init__(self, port):
        self.conn = socket.create_connection(("127.0.0.1", port))
        self.reader = self.conn.makefile()

    def log(self, **kv):
        self.conn.sendall(json.dumps(kv).encode() + b"\n")
        return json.loads(self.reader.readline())["ok"]  #: LINE


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tracker = None
    if rank == 3:  # the last rank holds the loss of the pipeline
        server = LocalTracker(patience=int(os.environ.get("TRACKER_ROWS", "14")))
        server.start()
        tracker = Tracker(server.port)
    torch.manual_seed(rank)
    theta = torch.randn(50)
    for it in range(400):
        step = 0.1 * torch.randn(50)
        dist.all_reduce(step)
        theta -= step / dist.get_world_size()
        if tracker and it % 10 == 0:
            tracker.log(it=it, norm=theta.norm().item())
        if rank == 0 and it % 20 == 0:
            print("it", it, flush=True)
        time.sleep(0.01)
    dist.destroy_process_group()


main()
