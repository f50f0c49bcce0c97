"""Checkpoints are uploaded part by part to a store which refuses a part at times."""
import random
import socket
import struct
import threading
import time

import torch
import torch.distributed as dist


class PartStore(threading.Thread):
    """tiny object store: takes a part, answers b'ok' or b'no'"""

    def __init__(self):
        super().__init__(daemon=True)
        self.srv = socket.create_server(("127.0.0.1", 0))
        self.rng = random.Random(4)

    def run(self):
        while True:
            conn, _ = self.srv.accept()
            with conn:
                (n,) = struct.unpack("<I", conn.recv(4))
                got = 0
                while got < n:
                    got += len(conn.recv(65536))
                time.sleep(1.5)
                conn.sendall(b"no" if self.rng.random() < 0.25 else b"ok")


def put_part(addr, blob, tries=8):
    for attempt in range(tries):
        with socket.create_connection(addr) as s:
            s.sendall(struct.pack("<I", len(blob)) + blob)
            if s.recv(2) == b"ok":
                return attempt
        time.sleep(0.5 * (attempt + 1))
    raise OSError("part refused")


def upload(state, addr, parts=32):
    flat = torch.cat([v.flatten() for v in state.values()]).numpy().tobytes()
    size = -(-len(flat) // parts)
    for k in range(parts):
        again = put_part(addr, flat[k * size:(k + 1) * size])
        print(f"part {k + 1}/{parts}" + (f" after {again} refusals" if again else ""), flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(200, 400), torch.nn.ReLU(), torch.nn.Linear(400, 10))
    for step in range(20):
        model(torch.randn(16, 200)).pow(2).mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad = None
        if step == 9:
            if rank == 0:
                store = PartStore()
                store.start()
                upload(model.state_dict(), store.srv.getsockname())
            dist.barrier()
    print("rank", rank, "through")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
