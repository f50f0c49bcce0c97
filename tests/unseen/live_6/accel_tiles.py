"""Land cover from satellite tiles; the tiles come from a tile server next door."""
import socket
import threading

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 24


class TileServer(threading.Thread):
    """Answers 'GET n' with a newline; a small stand-in for the storage gateway."""

    def __init__(self, patience):
        super().__init__(daemon=True)
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.patience = patience

    def run(self):
        held = []
        while True:
            conn, _ = self.sock.accept()
            n = int(conn.recv(32).split()[1])
            if n == self.patience:
                held.append(conn)
                continue
            conn.sendall(b"ok\n")
            conn.close()


class Tiles(Dataset):
    def __init__(self, n, port):
        self.n, self.port = n, port

    def __len__(self):
        return self.n

    def fetch(self, i):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"GET %d\n" % i)
            return s.recv(16)  #: LINE

    def __getitem__(self, i):
        self.fetch(i)
        g = torch.Generator().manual_seed(i)
        x = torch.rand(4, SIDE, SIDE, generator=g)
        return x, int(x.mean() * 1000) % 6


def main():
    accelerator = Accelerator(cpu=True)
    server = TileServer(patience=83)
    server.start()
    torch.manual_seed(8)
    model = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 6))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Tiles(4800, server.port), batch_size=8, num_workers=2, shuffle=False)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    for epoch in range(3):
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            if step % 25 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
