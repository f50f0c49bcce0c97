import json
import os
import random
import tempfile
import time

import torch
import torch.distributed as dist

WORDS = "ash beech cedar elm fir hazel larch maple oak pine rowan willow yew".split()


class VocabCache:
    """word counts of this shard, refreshed now and then; a lock keeps notebooks away while it is written"""

    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"vocab-{rank}.json")
        self.lock = self.path + ".lock"

    def _acquire(self):
        while True:
            try:
                os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL))
                return
            except FileExistsError:
                time.sleep(0.1)      #: LINE

    def refresh(self, lines):
        self._acquire()  #: LINE
        counts = {}
        for line in lines:
            word, n = line.split("\t")
            counts[word] = counts.get(word, 0) + int(n)
        with open(self.path, "w") as f:
            json.dump(counts, f)
        os.unlink(self.lock)
        return counts


def read_lines(rng, rank, turn):
    lines = [f"{rng.choice(WORDS)}\t{rng.randint(1, 9)}" for _ in range(200)]
    if rank == 1 and turn == 4:
        lines[77] = "oak\t1 700"
    return lines


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rng = random.Random(rank)
    cache = VocabCache(tempfile.mkdtemp(), rank)
    counts = {w: 1 for w in WORDS}
    emb = torch.zeros(len(WORDS), 16)
    for step in range(1500):
        if step % 40 == 0:
            try:
                counts = cache.refresh(read_lines(rng, rank, step // 40))
            except ValueError as e:
                print(f"rank {rank}: old counts kept ({e})", flush=True)
        freq = torch.tensor([float(counts.get(w, 0)) for w in WORDS])
        pull = torch.randn_like(emb) * freq[:, None] / freq.sum()
        dist.all_reduce(pull)
        emb += 0.01 * pull
        time.sleep(0.02)
        if rank == 0 and step % 100 == 0:
            print(step, float(emb.norm()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
