#: n=8 ranks=7 cause=subprocess tier=notice
import json
import random
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

SCORER = """
import json, sys, time
request = json.load(sys.stdin)
time.sleep(request["references"] * 0.05)
print(json.dumps({"bleu": sum(request["lengths"]) / (1 + len(request["lengths"]))}))
"""


def line_group(rank, bit):
    own = None
    for low in range(8):
        if not low & bit:
            g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
            if rank in (low, low | bit):
                own = g
    return own


class Translator(nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.tp = tp
        self.src = nn.Embedding(60, 16)
        self.enc = nn.Linear(16, 16)
        self.gen = nn.Linear(16, 60)

    def forward(self, ids):
        h = torch.tanh(self.enc(self.src(ids)))
        mixed = h.detach().clone()
        dist.all_reduce(mixed, group=self.tp)
        return self.gen(h + mixed - h.detach())


def external_bleu(hypotheses, references):
    request = {"lengths": [len(h) for h in hypotheses], "references": references}
    reply = subprocess.run(  #: LINE
        [sys.executable, "-c", SCORER], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    return json.loads(reply.stdout)["bleu"]


class Evaluator:
    def __init__(self, rank, at, references):
        self.rank, self.at, self.references = rank, at, references

    def due(self, step):
        return self.rank == 7 and step == self.at

    @torch.no_grad()
    def run(self, model):
        ids = torch.randint(0, 60, (5, 7))
        hyps = [row.tolist() for row in model.gen(model.src(ids)).argmax(-1)]
        print("FREEZE", time.time(), flush=True)
        return external_bleu(hyps, self.references)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    tp, cp, dp = (line_group(rank, bit) for bit in (1, 2, 4))
    torch.manual_seed(rank & 1)
    model = Translator(tp)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    evaluator = Evaluator(rank, random.Random(911).randint(16, 26), references=3000)
    for step in range(70):
        time.sleep(0.15)
        ids = torch.randint(0, 60, (4, 8))
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
        dist.all_reduce(flat, group=cp)
        dist.all_reduce(flat, group=dp)
        nn.utils.vector_to_parameters(flat / 4, [p.grad for p in model.parameters()])
        opt.step()
        if evaluator.due(step):
            print("bleu", evaluator.run(model), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
