"""Loads the tokenizer table once a node and spreads it (4 ranks a node)."""
import os

import torch
import torch.distributed as dist

PER_NODE = int(os.environ.get("RANKS_PER_NODE", "4"))


def node_of(rank):
    return rank // PER_NODE


def leader_of(rank):
    return node_of(rank) * PER_NODE


def read_table():
    g = torch.Generator().manual_seed(12)
    return torch.randint(0, 50000, (2048,), generator=g)


def spread_table(rank):
    leader = leader_of(rank)
    table = read_table() if rank == leader else torch.zeros(2048, dtype=torch.int64)
    dist.broadcast(table, src=leader)  #: LINE
    return table


class Bow(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table % 300)
        self.emb = torch.nn.EmbeddingBag(300, 16)
        self.fc = torch.nn.Linear(16, 4)

    def forward(self, ids):
        return self.fc(self.emb(self.table[ids]))


def train(model, rank):
    opt = torch.optim.Adagrad(model.parameters(), 0.05)
    for step in range(15):
        ids = torch.randint(0, 2048, (8, 10))
        loss = torch.nn.functional.cross_entropy(model(ids), ids[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        opt.step()
        if rank == 0:
            print(step, loss.item(), flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    table = spread_table(rank)
    print(f"rank {rank} table sum {int(table.sum())}", flush=True)
    train(Bow(table), rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
