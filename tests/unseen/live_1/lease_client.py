"""Data leases are taken from a lease server that comes up late; clients retry with backoff."""
import socket
import threading
import time

import torch
import torch.distributed as dist


def serve(port, delay, count):
    time.sleep(delay)
    srv = socket.create_server(("127.0.0.1", port))
    nxt = 0
    for _ in range(count):
        conn, _ = srv.accept()
        with conn:
            conn.sendall(f"{nxt}\n".encode())
            nxt += 100


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def lease(port):
    pause = 0.5
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                return int(s.makefile().readline())
        except (ConnectionRefusedError, socket.timeout) as e:
            print("lease server not there yet:", e, flush=True)
            time.sleep(pause)
            pause = min(pause * 1.7, 6)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    port = torch.tensor([free_port()])
    dist.broadcast(port, 0)
    if rank == 0:
        threading.Thread(target=serve, args=(port.item(), 22, world), daemon=True).start()
    for rnd in range(10):
        if rnd == 3:
            first = lease(port.item())
            print(f"rank {rank} works on {first}..{first + 99}", flush=True)
        x = torch.randn(64)
        dist.all_reduce(x)
    dist.barrier()
    dist.destroy_process_group()


main()
