"""Rank 0 fetches a corpus over HTTP with several tries; then every rank reads its own part."""
import http.server
import os
import tempfile
import threading
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist


class Mirror(http.server.BaseHTTPRequestHandler):
    calls = 0

    def do_GET(self):
        Mirror.calls += 1
        if Mirror.calls % 4 == 0:
            self.send_error(503, "busy")
            return
        time.sleep(2.2)
        body = bytes((i * 7 + Mirror.calls) % 251 for i in range(4000))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def download(path, parts=12):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/part"
    with open(path, "wb") as f:
        got = 0
        while got < parts:
            try:
                f.write(urllib.request.urlopen(f"{url}{got}", timeout=20).read())
                got += 1
            except urllib.error.HTTPError as err:
                print(f"ERROR: {err}; trying again in a second", flush=True)
                time.sleep(1.0)
    server.shutdown()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    path = [os.path.join(tempfile.mkdtemp(), "corpus.bin") if rank == 0 else None]
    dist.broadcast_object_list(path, src=0)
    if rank == 0:
        download(path[0])
    dist.barrier()
    data = torch.frombuffer(bytearray(open(path[0], "rb").read()), dtype=torch.uint8)
    for step in range(40):
        part = data[(step * world + rank) * 300:][:300].long()
        counts = torch.bincount(part, minlength=256)
        dist.all_reduce(counts)
        time.sleep(0.1)
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: {int(counts.sum())} bytes", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
