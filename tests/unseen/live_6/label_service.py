import json
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Labels(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"classes": ["oak", "elm", "ash", "fir", "yew"]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


def service_after(seconds):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    def serve():
        time.sleep(seconds)
        HTTPServer(("127.0.0.1", port), Labels).serve_forever()

    threading.Thread(target=serve, daemon=True).start()
    return port


def fetch_classes(port, tries=30):
    for n in range(tries):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/classes", timeout=4) as r:
                return json.load(r)["classes"]
        except (urllib.error.URLError, TimeoutError) as e:
            wait = min(0.5 * 2**n, 8)
            print(f"ERROR: label service: {e}; try {n + 1} of {tries}, next in {wait} s", flush=True)
            time.sleep(wait)
    raise SystemExit("no labels")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    box = [None]
    if rank == 0:
        box[0] = fetch_classes(service_after(36))
    dist.broadcast_object_list(box, src=0)
    classes = box[0]
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(18, 40), nn.ReLU(), nn.Linear(40, len(classes))))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(600):
        x = torch.randn(32, 18, generator=g)
        loss = nn.functional.cross_entropy(model(x), x[:, : len(classes)].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
