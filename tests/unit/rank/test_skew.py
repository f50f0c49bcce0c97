"""Ranks that differ are named before the start. A real store; each rank is a thread."""

import threading

from torch._C._distributed_c10d import HashStore

from emberward.findings import ConfigError, EmberwardError
from emberward.rank._skew import fingerprint, require_equal_fingerprints, told_to_others

MINE = {"emberward": "0.1.0", "torch": "2.13.0", "configuration": "abc"}


def meet(values, world_size=None):
    """What each rank got: None, or the error's text."""
    store = HashStore()
    results: dict[int, str | None] = {}

    def rank(number):
        try:
            with told_to_others(store, rank=number, host=f"host{number}", meeting="fingerprint"):
                if isinstance(values[number], Exception):
                    raise values[number]
            require_equal_fingerprints(
                store,
                values[number],
                rank=number,
                host=f"host{number}",
                world_size=world_size or len(values),
                timeout_s=1.0,
            )
            results[number] = None
        except EmberwardError as error:
            results[number] = str(error)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    return results


def test_equal_ranks_start():
    assert meet([MINE] * 4) == dict.fromkeys(range(4))


def test_another_version_on_one_rank_is_named_to_all():
    results = meet([MINE, MINE, {**MINE, "torch": "2.12.1"}, MINE])
    assert set(results.values()) == {
        "L101 ranks differ in torch\n"
        "  where     rank 2 on host2\n"
        "  expected  2.13.0, as 3 of 4 ranks have\n"
        "  found     2.12.1\n"
        "  next      start every rank with the same installation, recipe and data"
    }


def test_a_rank_that_never_comes_is_named():
    results = meet([MINE] * 2, world_size=3)
    assert all("rank 2 did not come to the start" in text for text in results.values())
    assert len(results) == 2


def test_the_fingerprint_covers_the_code():
    print_ = fingerprint(torch_version="2.13.0", config_digest="a" * 64, data_digest="b" * 64)
    assert print_["configuration"] == "a" * 16
    assert len(print_["emberward code"]) == 16


def test_of_two_that_differ_one_is_named_to_both():
    results = meet([MINE, {**MINE, "configuration": "xyz"}])
    assert len(set(results.values())) == 1
    assert "L101 ranks differ in configuration" in str(results[0])


def test_a_rank_that_failed_before_is_named_to_the_others_with_its_reason():
    wrong = ConfigError("unknown key 'optim.lrr'", code="C101", where="command line")
    for odd in (0, 1):
        values = [MINE] * 3
        values[odd] = wrong
        results = meet(values)
        assert results.pop(odd) == str(wrong)
        assert set(results.values()) == {
            f"L103 rank {odd} could not start\n"
            f"  where     rank {odd} on host{odd}\n"
            "  found     C101 unknown key 'optim.lrr'\n"
            "  next      start every rank with the same installation, recipe and data"
        }
