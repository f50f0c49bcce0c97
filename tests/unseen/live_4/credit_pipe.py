"""Two stages. Each has a postman thread with a small box, so that sending does not hold up the arithmetic."""
import queue
import threading

import torch
import torch.distributed as dist

BOX, DIM = 2, 64


class Postman(threading.Thread):
    def __init__(self, peer):
        super().__init__(daemon=True)
        self.peer, self.box = peer, queue.Queue(maxsize=BOX)
        self.start()

    def run(self):
        while True:
            t = self.box.get()
            if t is None:
                return
            dist.send(t, self.peer)  #: LINE

    def post(self, t):
        self.box.put(t)  #: LINE


def front(step, post, w):
    micro = 3 if step < 60 else 10          # larger batches after the warm-up
    xs = [torch.randn(8, DIM) for _ in range(micro)]
    for x in xs:
        post.post(x @ w)  #: LINE
    for x in xs:
        g = torch.empty(8, DIM)
        dist.recv(g, 1)
        w -= 1e-3 * (x.T @ g)


def back(step, post, w):
    micro = 3 if step < 60 else 10
    for _ in range(micro):
        h = torch.empty(8, DIM)
        dist.recv(h, 0)
        out = torch.tanh(h @ w)
        w -= 1e-3 * (h.T @ (out - 0.5))
        post.post((out - 0.5) @ w.T)  #: LINE


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    w = torch.randn(DIM, DIM) / 8
    post = Postman(1 - rank)
    for step in range(200):
        (front if rank == 0 else back)(step, post, w)
        if rank == 1 and step % 20 == 0:
            print(f"step {step} |w| {w.norm():.3f}", flush=True)
    post.post(None)
    post.join()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
