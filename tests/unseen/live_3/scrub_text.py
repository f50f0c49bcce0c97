"""Cleaning of web text: lines are matched against a table of patterns, counts are shared."""
import random
import re
import time

import torch
import torch.distributed as dist

PATTERNS = {
    "mail": re.compile(r"[\w.]+@\w+\.\w+"),
    "list": re.compile(r"^(\w+\s?)+:$"),
    "price": re.compile(r"\d+[.,]\d\d EUR"),
}
WORDS = "order parcel invoice street house number please write to me at once tomorrow".split()


def line_of(rng, rank, step):
    if rank == 1 and step == 25:
        return "a" * 64 + "!"  # a line of a broken crawler
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.2:
        words.append("x.y@mail.org")
    if rng.random() < 0.2:
        words.append("12.50 EUR")
    return " ".join(words)


class Scrubber:
    def __init__(self):
        self.hits = dict.fromkeys(PATTERNS, 0)

    def scrub(self, line):
        for name, pattern in PATTERNS.items():
            if pattern.search(line):  #: LINE
                self.hits[name] += 1
                return True
        return False


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rng = random.Random(rank)
    scrubber = Scrubber()
    kept = 0
    for step in range(150):
        for _ in range(40):
            line = line_of(rng, rank, step)
            kept += not scrubber.scrub(line)
        time.sleep(0.2)
        counts = torch.tensor([kept, *scrubber.hits.values()])
        dist.all_reduce(counts)
        if rank == 0 and step % 5 == 0:
            print(f"step {step}: kept and hits {counts.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
