"""A recipe meets the number of ranks that a person has: both verbs adapt a preset and refuse a written layout alike."""

import pytest

from emberward.findings import ConfigError
from emberward.recipe import fit_ranks, resolve_fitted

TRAIN, CHECK = ("emberward", "train"), ("emberward", "check")


def resolved(*words: str, num_ranks: int | None = None, command=TRAIN):
    fitted = fit_ranks(words[0], words[1:], num_ranks=num_ranks, command=command)
    return fitted, resolve_fitted(fitted, words[1:], tokenizer_size=257, command=command)


def refused(*words: str, num_ranks: int | None = None, command=TRAIN) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        resolved(*words, num_ranks=num_ranks, command=command)
    return caught.value


@pytest.mark.parametrize("command", [TRAIN, CHECK])
def test_a_preset_gives_way_to_the_number_of_ranks_and_says_so(command):
    fitted, found = resolved("bloom_tiny", num_ranks=2, command=command)
    assert (found.recipe.layout.dp, found.recipe.layout.tp, found.recipe.layout.pp) == (2, 1, 1)
    assert fitted.notes == ("2 ranks instead of the recipe's 8: layout.dp=2 layout.tp=1 layout.pp=1",)


def test_its_own_number_of_ranks_changes_nothing_and_says_nothing():
    for num_ranks in (None, 8):
        fitted, found = resolved("bloom_tiny", num_ranks=num_ranks)
        assert (fitted.notes, found.num_ranks, found.recipe.layout.tp) == ((), 8, 2)


def test_a_layout_that_was_written_is_not_changed_but_refused_with_those_that_fit():
    error = refused("bloom_tiny", "layout.tp=2", "layout.pp=2", "steps=40", num_ranks=6, command=CHECK)
    assert error.text() == (
        "C104 6 ranks cannot be laid out as dp 2 x tp 2 x pp 2 = 8\n"
        "  where     command line\n"
        "  expected  6 ranks = dp x tp x pp, as dp 2 tp 1 pp 3 or dp 1 tp 2 pp 3\n"
        "  found     layout.dp=2 (preset bloom_tiny), layout.tp=2 (command line), layout.pp=2 (command line)\n"
        "  next      layout.dp=2 layout.tp=1 layout.pp=3, or 8 ranks\n"
        "  fits      emberward check bloom_tiny steps=40 layout.dp=2 layout.tp=1 layout.pp=3 --ranks 6\n"
        "            emberward check bloom_tiny steps=40 layout.dp=1 layout.tp=2 layout.pp=3 --ranks 6"
    )


def test_every_command_that_is_offered_passes():
    for words, num_ranks in (
        (("bloom_tiny", "layout.tp=3"), None),
        (("bloom_tiny", "--layout.tp", "8"), 32),
        (("bloom_tiny", "layout.pp=8", "batch.global_batch=64"), 16),
        (("bloom_small", "layout.tp=5"), 20),
        (("bloom_tiny", "layout.dp=16", "layout.tp=1", "layout.pp=1"), None),
    ):
        error = refused(*words, num_ranks=num_ranks)
        assert error.choices, words
        assert error.to_finding().evidence[-len(error.choices) :] == tuple(f"fits {each}" for each in error.choices)
        for choice in error.choices:
            program, verb, *rest, option, ranks = choice.split()
            assert (program, verb, option) == (*TRAIN, "--ranks")
            resolved(*rest, num_ranks=int(ranks))


def test_what_no_layout_mends_is_refused_without_layouts():
    for words in (("bloom_tiny", "steps=10", "train_samples=99"), ("bloom_tiny", "model.num_heads=3")):
        assert refused(*words).choices == ()


def test_a_recipe_that_does_not_say_how_many_ranks_asks_for_them():
    error = refused("bloom_small", "layout.tp=2", command=CHECK)
    assert error.text() == (
        "C104 the number of ranks is not known\n"
        "  where     layout.dp\n"
        "  expected  --ranks N, or layout.dp with layout.tp and layout.pp\n"
        "  found     neither\n"
        "  next      emberward check bloom_small --ranks 2"
    )
