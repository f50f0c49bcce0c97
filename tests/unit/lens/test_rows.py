"""Rows that nothing reads: what the probe sees of chains of calls, and what is told of them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from unit.lens.test_alike import compared_by, wastes_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause

WIDTH, WORDS = 64, 900
HEAD = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))
MEMORY = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)
BLOCK = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
STATES = torch.randn(8, 100, WIDTH)
TARGETS = torch.where(torch.rand(8, 100) < 0.15, torch.randint(WORDS, (8, 100)), -100)
IS_MASKED = TARGETS != -100


def ignores_most_targets(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(scores.flatten(0, 1), TARGETS.flatten()).backward()


def names_its_arguments(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(input=scores.transpose(1, 2), target=TARGETS.clamp(min=0), ignore_index=0).backward()


def picks_the_last_place(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(scores[:, -1], TARGETS[:, -1].clamp(min=0)).backward()


def picks_masked_places(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(scores[IS_MASKED], TARGETS[IS_MASKED]).backward()


def ignores_most_of_a_product(step):
    scores = STATES @ HEAD[3].weight.t()  # here
    F.cross_entropy(scores.view(-1, WORDS) / 2.0, TARGETS.view(-1)).backward()


CHOICE = torch.randint(8, (8, 100))
OF_AN_EXPERT = float((CHOICE == 0).float().mean())
SHARES, COLUMNS = torch.rand(8, 100, 1), torch.arange(WORDS).expand(8, 100, WORDS)


def gates_an_expert(step):
    made = HEAD(STATES)  # here
    ((CHOICE == 0).float().unsqueeze(-1) * made).sum().backward()


def selects_an_expert(step):
    made = HEAD(STATES) * SHARES  # here
    torch.where((CHOICE == 0).unsqueeze(-1), made, 0.0).sum().backward()


def fills_what_an_expert_has_not(step):
    made = HEAD(STATES)  # here
    made.masked_fill((CHOICE != 0).unsqueeze(-1), 0.0).sum().backward()


def selects_what_is_no_padding(step):
    made = HEAD(STATES)  # here
    torch.where((CHOICE == 0).unsqueeze(-1), 0.0, made).sum().backward()


def masks_numbers_within_rows(step):
    made = HEAD(STATES)  # here
    torch.where(COLUMNS < 9, made, 0.0).sum().backward()


def masks_padding(step):
    made = HEAD(STATES)  # here
    ((CHOICE != 0).float().unsqueeze(-1) * made).sum().backward()


def picks_before_the_head(step):
    scores = HEAD(STATES[IS_MASKED])  # here
    F.cross_entropy(scores, TARGETS[IS_MASKED]).backward()


def reads_all_for_a_metric_too(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(scores[IS_MASKED], TARGETS[IS_MASKED]).backward()
    return scores.argmax(-1)


def reads_all_targets(step):
    scores = HEAD(STATES)  # here
    F.cross_entropy(scores.flatten(0, 1), TARGETS.clamp(min=0).flatten()).backward()


def reads_the_first_place_of_a_block(step):
    states = STATES + BLOCK(STATES)  # here
    HEAD(states[:, 0]).sum().backward()


def picks_columns(step):
    scores = HEAD(STATES)  # here
    scores[..., :10].sum().backward()


def picks_each_part(step):
    scores = HEAD(STATES)  # here
    (scores[:4].sum() + scores[4:].sum()).backward()


def makes_a_state_first(step):
    """Of all that has a backward the recurrent part takes most, and gives a pair."""
    states, _ = MEMORY(STATES)
    scores = HEAD[3](states)  # here
    F.cross_entropy(scores[:, -1], TARGETS[:, -1].clamp(min=0)).backward()


def gives_its_result_away(step):
    return HEAD(STATES)  # here


LIBRARY = {"F": F}
exec(
    compile(
        "def head(x, weight):\n    return F.linear(x, weight).float()\n"
        "def norm(x):\n    return F.layer_norm(x, x.shape[-1:])\n"
        "def last(x, weight):\n    return F.linear(x, weight)[:, -1]\n",
        "/x/lib/python3.11/site-packages/heads/head.py",
        "exec",
    ),
    LIBRARY,
)


def picks_the_last_place_of_a_library_s(step):
    scores = LIBRARY["head"](STATES, HEAD[3].weight)  # here
    F.cross_entropy(scores[:, -1], TARGETS[:, -1].clamp(min=0)).backward()


def picks_of_a_library_s_norm(step):
    states = LIBRARY["norm"](STATES + BLOCK(STATES))  # here
    HEAD(states[:, 0]).sum().backward()


def has_a_library_pick(step):
    scores = LIBRARY["last"](STATES, HEAD[3].weight)  # here
    F.cross_entropy(scores, TARGETS[:, -1].clamp(min=0)).backward()


UNREAD = [
    ignores_most_targets,
    names_its_arguments,
    picks_the_last_place,
    picks_masked_places,
    *(ignores_most_of_a_product, gates_an_expert, picks_the_last_place_of_a_library_s),
    *(selects_an_expert, fills_what_an_expert_has_not),
]
READ = [
    *(picks_before_the_head, reads_all_for_a_metric_too, reads_all_targets, reads_the_first_place_of_a_block),
    *(picks_columns, picks_each_part, gives_its_result_away, masks_padding),
    *(picks_of_a_library_s_norm, has_a_library_pick, selects_what_is_no_padding, masks_numbers_within_rows),
]


ATTENTION = nn.MultiheadAttention(WIDTH, 8, batch_first=True)


def drops_its_weights(step):
    states, _ = ATTENTION(STATES, STATES, STATES)  # here
    states.sum().backward()


def reads_its_weights(step):
    states, weights = ATTENTION(STATES, STATES, STATES)  # here
    (states.sum() + weights[:, :, 0].sum()).backward()


def asks_for_no_weights(step):
    states, _ = ATTENTION(STATES, STATES, STATES, need_weights=False)  # here
    states.sum().backward()


def unread_at(program):
    """The share of torch's time at the program's line that made rows which nothing read."""
    found = {where[0][1]: (unread, whole) for where, unread, whole, *_ in compared_by(program, "rows")}
    unread, whole = found.get(line_of(program), (0, 1))
    return unread / whole


@pytest.mark.parametrize("program", UNREAD)
def test_the_rows_that_an_index_or_a_loss_leaves_out_are_seen_at_the_line_that_makes_them(program):
    needed = {
        picks_the_last_place: 0.01,
        picks_the_last_place_of_a_library_s: 0.01,
        **dict.fromkeys((gates_an_expert, selects_an_expert, fills_what_an_expert_has_not), OF_AN_EXPERT),
    }.get(program, float(IS_MASKED.float().mean()))
    assert unread_at(program) == pytest.approx(1 - needed, abs=0.1)


@pytest.mark.parametrize("program", READ)
def test_rows_that_somebody_reads_are_not(program):
    assert unread_at(program) == 0


def test_their_share_of_the_backward_is_of_all_that_has_one():
    (behind,) = [each for where, _, _, each, _ in compared_by(makes_a_state_first, "rows")]
    assert 0 < behind < 0.5


def test_they_are_told_with_their_part_of_the_backward(tmp_path):
    (waste,) = wastes_of(ignores_most_targets, tmp_path)
    assert (waste.cause, waste.site) == (Cause.UNUSED_RESULT, f"{__file__}:{line_of(ignores_most_targets)}")
    unread, _, said = waste.evidence[0].partition("% ")
    assert 70 < float(unread) < 90
    assert (
        said == "of what torch computes for this line of ignores_most_targets() are rows or weights that nothing reads"
    )
    assert waste.cost_s > 0


def test_the_look_alike_is_quiet(tmp_path):
    assert wastes_of(picks_before_the_head, tmp_path) == ()


def test_weights_of_an_attention_that_nothing_reads_are_seen_and_drawn_numbers_are_as_without():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert 0.1 < unread_at(drops_its_weights) < 0.95
    assert torch.equal(before, torch.get_rng_state())
    assert unread_at(reads_its_weights) == unread_at(asks_for_no_weights) == 0
