"""Tokenisation through an external filter program, as the old pipeline did."""
import subprocess
import sys

import torch
import torch.distributed as dist

FILTER = """
import sys
for line in sys.stdin:
    sys.stdout.write(' '.join(str(len(w)) for w in line.split()) + '\\n')
"""


def documents(rank):
    # sizes of the documents of each rank, in lines
    sizes = [40, 60, 50, 3000 if rank == 1 else 70, 30]
    for n in sizes:
        yield "".join(f"the quick brown fox number {i} of rank {rank}\n" for i in range(n))


class Filter:
    def __init__(self):
        self.cmd = [sys.executable, "-c", FILTER]

    def __call__(self, text):
        proc = subprocess.Popen(self.cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in text.splitlines(keepends=True):
            proc.stdin.write(line * 8)  #: LINE
        proc.stdin.close()
        proc.wait()
        return [int(t) for t in proc.stdout.read().split()]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tok = Filter()
    lm = torch.nn.Embedding(32, 8)
    for k, doc in enumerate(documents(rank)):
        ids = torch.tensor(tok(doc)).clamp(max=31)
        loss = lm(ids).mean()
        loss.backward()
        dist.all_reduce(lm.weight.grad)
        lm.weight.grad = None
        if rank == 0:
            print(f"document {k}: {ids.numel()} tokens", flush=True)
    n = torch.tensor([k])
    dist.all_reduce(n)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
