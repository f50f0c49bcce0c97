"""Tables of which a step looks up a few rows: what the probe sees, and what is told of their gradients."""

import pytest
import torch
from torch import nn
from unit.lens.test_alike import compared_by, seen_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause
from emberward.lens import wastes_of, work_of
from emberward.sources import _tables

ROWS, WIDTH = 20_000, 16
IDS = torch.randint(ROWS, (64, 4))


@pytest.fixture(autouse=True)
def watched():
    removes = _tables.watch_tables()
    yield
    removes()


def program_of(optimizer=torch.optim.SGD, *, sparse=False, tied=False, kind=nn.Embedding, rows=ROWS, **named):
    """A program whose step looks up 256 rows of a table."""
    table = kind(rows, WIDTH, sparse=sparse)  # here
    optimizer = optimizer(table.parameters(), lr=0.1, **named)

    def program(step):
        found = table((IDS + step) % ROWS).flatten(1).sum(1)
        loss = (found[:, None] * (table.weight.sum(0) if tied else 1.0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return program


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adam])
def test_a_table_is_seen_with_the_line_that_made_it_and_what_is_looked_up(kind, optimizer):
    ((site, shape, share),) = compared_by(program_of(optimizer, kind=kind), "table")
    assert (site, shape) == (f"{__file__}:{line_of(program_of)}", (ROWS, WIDTH))
    assert share == pytest.approx(len(IDS.unique()) / ROWS)


@pytest.mark.parametrize(
    "named",
    [
        {"sparse": True},
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"optimizer": torch.optim.Adam, "weight_decay": 0.1},
        {"optimizer": torch.optim.Adam, "amsgrad": True},
        {"optimizer": torch.optim.AdamW},
    ],
    ids=["sparse", "momentum", "decay", "Adam with decay", "AMSGrad", "AdamW"],
)
def test_what_is_sparse_or_moves_without_a_gradient_is_none(named):
    assert compared_by(program_of(**named), "table") == []


def test_a_weight_that_something_else_computes_with_is_none():
    assert compared_by(program_of(tied=True), "table") == []


def test_what_the_other_rows_cost_is_told_where_the_table_was_made(tmp_path):
    rank, samples = seen_of(program_of(rows=10 * ROWS), tmp_path)
    (waste,) = wastes_of(work_of([rank], [samples]), [rank], {}, [samples], {}, None)
    assert (waste.cause, waste.site) == (Cause.DENSE_GRADIENT, f"{__file__}:{line_of(program_of)}")
    assert waste.evidence[0].startswith("a step looks up 0.1% of the 200,000 rows of the table made at ")
