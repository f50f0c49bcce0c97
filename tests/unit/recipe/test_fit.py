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
        "  next      emberward check bloom_tiny steps=40 layout.dp=2 layout.tp=1 layout.pp=3 --ranks 6\n"
        "  or        emberward check bloom_tiny steps=40 layout.dp=1 layout.tp=2 layout.pp=3 --ranks 6"
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


def test_the_next_step_is_a_command_also_where_another_reason_is_left():
    error = refused("bloom_tiny", "layout.tp=3", "layout.pp=1", "layout.dp=1", "model.seq_len=64", num_ranks=3)
    assert error.to_finding().next.startswith("emberward train bloom_tiny ")
    two = refused("bloom_tiny", "layout.pp=8", "layout.stages_per_rank=2", "layout.dp=1", "layout.tp=1", num_ranks=8)
    assert two.to_finding().next.startswith("emberward train bloom_tiny ")


def test_what_no_layout_corrects_is_refused_without_layouts():
    assert refused("bloom_tiny", "model.num_heads=3").choices == ()
    disagree = refused("bloom_tiny", "steps=10", "train_samples=99")
    assert disagree.choices == ("emberward train bloom_tiny steps=10 train_samples=null --ranks 8",)


@pytest.mark.parametrize(
    ("words", "num_ranks", "what", "found"),
    [
        (("batch.global_batch=7",), 2, "the batch sums do not fit", "global_batch 7, but micro_batch 4 x dp 2 = 8"),
        (("model.num_heads=5",), 1, "the heads do not divide the width", "model.num_heads=5 (command line)"),
        (("model.num_heads=5",), 7, "the heads do not divide the width", "model.num_heads=5 (command line)"),
        (("layout.tp=2", "batch.global_batch=7"), 4, "the batch sums do not fit", "batch.global_batch=7"),
        (("layout.pp=2", "model.num_heads=5"), 6, "the heads do not divide the width", "model.num_heads=5"),
    ],
)
def test_what_no_number_of_ranks_corrects_is_not_blamed_on_the_ranks(words, num_ranks, what, found):
    error = refused("bloom_tiny", *words, num_ranks=num_ranks)
    assert error.what == what
    assert found in error.found
    assert error.where == "command line"


def test_a_number_of_ranks_without_a_layout_is_refused_with_the_nearest_on_both_sides():
    assert refused("bloom_tiny", "steps=9", num_ranks=7).text() == (
        "C104 the recipe has no layout of 7 ranks\n"
        "  where     --ranks\n"
        "  expected  6 or 8 ranks\n"
        "  found     dp 7 tp 1 pp 1: the batch sums do not fit (global_batch 32, but micro_batch 4 x dp 7 = 28, and "
        "32 / 28 = 1.14286); dp 1 tp 1 pp 7: there are fewer layers than pipeline stages (model.num_layers=4, "
        "layout.pp=7, layout.stages_per_rank=1); dp 1 tp 7 pp 1: tensor parallel cannot split the model "
        "(model.num_heads=4, layout.tp=7)\n"
        "  next      emberward train bloom_tiny steps=9 --ranks 6\n"
        "  or        emberward train bloom_tiny steps=9 --ranks 8"
    )


@pytest.mark.parametrize("num_ranks", [*range(1, 20), 500])
def test_whatever_ranks_are_proposed_have_a_layout(num_ranks):
    for words in ((), ("layout.dp_replicate=2",), ("schedule=interleaved", "layout.stages_per_rank=2")):
        try:
            resolved("bloom_tiny", *words, num_ranks=num_ranks)
        except ConfigError as error:
            assert error.choices, (words, num_ranks)
            for choice in error.choices:
                _, _, *rest, _, ranks = choice.split()
                resolved(*rest, num_ranks=int(ranks))


def test_an_open_dp_that_the_batch_does_not_fit_names_other_ranks_too():
    error = refused("bloom_small", num_ranks=7, command=CHECK)
    assert error.what == "the batch sums do not fit"
    assert error.choices == ("emberward check bloom_small layout.dp=1 layout.tp=1 layout.pp=7 --ranks 7",)


def test_tp_that_does_not_divide_the_sequence_turns_sequence_parallelism_off_and_says_so():
    words = ("bloom_tiny", "layout.dp=1", "layout.tp=3", "layout.pp=1", "model.num_heads=6", "model.hidden=96")
    _, off = resolved(*words, "model.seq_len=64")
    assert off.recipe.layout.sequence_parallel is False
    assert off.origins["layout.sequence_parallel"] == "worked out from model.seq_len 64 and layout.tp 3"
    assert off.notes[0] == (
        "sequence parallelism is off: layout.tp=3 does not divide model.seq_len=64; "
        "the results are the same, activations take more memory"
    )
    _, on = resolved(*words, "model.seq_len=66")
    assert on.recipe.layout.sequence_parallel is True
    assert not [note for note in on.notes if "sequence" in note]
    _, asked = resolved(*words, "model.seq_len=64", "layout.sequence_parallel=false")
    assert not [note for note in asked.notes if "sequence" in note]
    wanted = refused(*words, "model.seq_len=64", "layout.sequence_parallel=true")
    assert wanted.what == "sequence parallel cannot split the sequence"


OPTIONS = ("--ranks", "--runs", "--fresh", "--resume", "--dry", "--no-check", "--restarts", "--json")


@pytest.mark.parametrize(
    ("words", "what", "meant"),
    [
        (("--rank", "2"), "unknown option --rank", "--ranks"),
        (("--rank=2",), "unknown option --rank", "--ranks"),
        (("rank=2",), "unknown key rank", "--ranks"),
        (("--dy",), "unknown option --dy", "--dry"),
        (("--no_chek",), "unknown option --no_chek", "--no-check"),
        (("--step", "3"), "unknown key step", "steps"),
        (("--lr", "1e-3"), "unknown key lr", "optim.lr"),
    ],
)
def test_a_misspelt_option_is_told_from_a_misspelt_key(words, what, meant):
    with pytest.raises(ConfigError) as caught:
        fit_ranks("bloom_tiny", words, num_ranks=None, command=TRAIN, options=OPTIONS)
    assert (caught.value.code, caught.value.what) == ("C101", what)
    assert caught.value.next == f"did you mean {meant}?"


def test_a_value_that_looks_like_an_option_is_a_value():
    fitted = fit_ranks("bloom_tiny", ("--sample-prompt", "rank=2"), num_ranks=None, command=TRAIN, options=OPTIONS)
    assert fitted.loaded.recipe.sample_prompt == "rank=2"


def test_a_recipe_that_does_not_say_how_many_ranks_asks_for_them():
    error = refused("bloom_small", "layout.tp=2", command=CHECK)
    assert error.text() == (
        "C104 the number of ranks is not known\n"
        "  where     layout.dp\n"
        "  expected  --ranks N, or layout.dp with layout.tp and layout.pp\n"
        "  found     neither\n"
        "  next      emberward check bloom_small layout.tp=2 --ranks 2"
    )
