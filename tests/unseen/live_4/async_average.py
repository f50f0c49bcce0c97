"""Local SGD: a thread of every rank averages a copy of the weights while the main thread goes on."""
import threading

import torch
import torch.distributed as dist


class Averager:
    def __init__(self, n):
        self.group = dist.new_group(list(range(dist.get_world_size())))
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.box = torch.zeros(n)
        self.history = []
        threading.Thread(target=self.loop, name="averager", daemon=True).start()

    def loop(self):
        while True:
            self.go.acquire()
            drift = self.box.std() / self.box.abs().max()
            self.history.append(round(1 / int(drift * 1e4), 6))   # raises when the drift is tiny  #: LINE
            dist.all_reduce(self.box, group=self.group)
            self.box /= dist.get_world_size()
            self.done.release()

    def start(self, w):
        self.box.copy_(w)
        self.go.release()

    def finish(self):
        self.done.acquire()  #: LINE
        return self.box.clone()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    w = torch.randn(400)
    averager = Averager(400)
    target = torch.linspace(-1, 1, 400)
    for rnd in range(900):
        averager.start(w)
        delta = torch.zeros(400)
        for _ in range(5):
            x = torch.randn(64, 400)
            g = x.T @ (x @ (w + delta - target)) / 64
            delta -= 0.001 * g
        w = averager.finish() + delta
        if rank == 2 and rnd == 300:
            w = torch.full((400,), w.mean().item())      # restart of a run that went wrong
        if rank == 0 and rnd % 50 == 0:
            print(rnd, float((w - target).norm()), flush=True)
    dist.destroy_process_group()


main()
