"""Programs on two ranks that gather rows of each other and compute with them, seen by the watch of torch's calls."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from emberward.sources._alike import NUM_COMPARED, AlikeWatch

ROWS, WIDTH = 24, 16


def gathered(mine):
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine.contiguous())
    parts[dist.get_rank()] = mine
    return parts


def scores_of_all_pairs(model, x):
    every = torch.cat(gathered(model(x)))
    scores = every @ every.T  # told
    return F.cross_entropy(scores, torch.arange(len(every)))  # told


def scores_of_its_own_rows(model, x):
    mine = model(x)
    every = torch.cat(gathered(mine))
    scores = mine @ every.T
    return F.cross_entropy(scores, dist.get_rank() * ROWS + torch.arange(ROWS))


def guesses_of_all_rows(model, x):
    mine = model(x)
    every = torch.cat(gathered(mine.detach()))
    ranked = every.sort(1).values  # told, without a backward
    return mine.square().mean() + 0 * ranked.sum()  # told, without a backward


def keys_of_all_rows(model, x):
    keys = model(torch.cat(gathered(x)))  # told, without a backward
    return (model(x) @ keys.T).softmax(1).square().sum()


def columns_of_all_ranks(model, x):
    whole = torch.cat(gathered(model(x)), dim=1)
    return whole.sort(1).values.square().mean()


def table_of_all_ranks(model, x):
    whole = torch.empty(2 * ROWS, WIDTH)
    dist.all_gather_into_tensor(whole, x)
    return model(x).mean() + whole.sort(1).values.square().mean()  # told, without a backward


PROGRAMS = (
    scores_of_all_pairs, scores_of_its_own_rows, guesses_of_all_rows, keys_of_all_rows, columns_of_all_ranks,
    table_of_all_ranks,
)  # fmt: skip


def gathered_case(rank: int, world_size: int):
    """The lines that the watch writes of each program, by its name."""
    del world_size
    return {program.__name__: _lines_of(program, rank) for program in PROGRAMS}


def _lines_of(program, rank):
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, WIDTH)
    watch = AlikeWatch()
    watch.start()
    for step in range(NUM_COMPARED):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2 * step + rank))
        program(model, x).backward()
        watch.stepped()
    watch.stop()
    return [line["of_all"] for line in watch.lines() if "of_all" in line]
