"""Recommender: dense features come from a small server on this machine, one connection for each rank."""
import os
import socket
import struct
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ITEMS, DIM, BATCH, STEPS = 5000, 16, 48, 500
CACHED = 4_990  # items whose features are in the server's table


def receive(conn, n):
    data = b""
    while len(data) < n:
        part = conn.recv(n - len(data))  #: LINE
        if not part:
            raise ConnectionError("feature server has closed the connection")
        data += part
    return data


class FeatureServer:
    """Answers a list of item numbers with one vector for each."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.table = torch.randn(CACHED, DIM, generator=torch.Generator().manual_seed(0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            conn, _ = self.sock.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        while True:
            (n,) = struct.unpack("!i", receive(conn, 4))
            ids = torch.frombuffer(bytearray(receive(conn, 8 * n)), dtype=torch.int64)
            rows = self.table[ids[ids < CACHED]]  #: LINE
            conn.sendall(rows.numpy().tobytes())


class FeatureClient:
    def __init__(self, port):
        self.conn = socket.create_connection(("127.0.0.1", port))

    def get(self, ids):
        self.conn.sendall(struct.pack("!i", len(ids)) + ids.numpy().tobytes())
        return torch.frombuffer(bytearray(receive(self.conn, 4 * DIM * len(ids))), dtype=torch.float32).view(len(ids), DIM)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(300, 32)
        self.mlp = nn.Sequential(nn.Linear(32 + DIM, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, f):
        return self.mlp(torch.cat([self.user(u), f], 1)).squeeze(1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    where = [None]
    if rank == 0:
        where = [FeatureServer().port]
    dist.broadcast_object_list(where, src=0)
    client = FeatureClient(where[0])
    torch.manual_seed(1)
    model = DDP(Ranker())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(60 + rank)
    for step in range(STEPS):
        users = torch.randint(0, 300, (BATCH,), generator=g)
        newest = ITEMS if (rank == 3 and step >= 150) else CACHED  # this rank's log has the items of today
        items = torch.randint(0, newest, (BATCH,), generator=g)
        features = client.get(items)
        y = (features[:, 0] + 0.01 * users > 1.5).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(users, features), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
