"""Agreements of background saves over a real store: by ranks that are threads, and by one that never comes."""

import threading
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import PrefixStore, TCPStore

from emberward.findings import EmberwardError
from emberward.rank._agreements import SaveAgreements

RANKS = 3


@pytest.fixture
def store():
    server = TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30), multi_tenant=True
    )
    return PrefixStore("saves", server)


def vote(store, answers):
    """What each rank hears, for the rows of what each rank says in save after save."""
    heard = [[] for _ in range(RANKS)]

    def rank_does(rank):
        agreements = SaveAgreements(store, rank=rank, world_size=RANKS, timeout_s=30)
        for save, row in enumerate(answers):
            agree = agreements.agreement(save)
            heard[rank].append(agree(row[rank]))

    threads = [threading.Thread(target=rank_does, args=(rank,), daemon=True) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return heard


def test_all_hear_whether_all_are_well_and_old_votes_are_forgotten(store):
    answers = [(True, True, True), (True, False, True), (True, True, True), (False, True, False), (True, True, True)]
    heard = vote(store, answers)
    assert heard == [[True, False, True, False, True]] * RANKS
    assert not store.check(["save/0/0/all"]) and not store.check(["save/2/0/votes"]), "rank 0 cleans up behind it"
    assert store.check(["save/4/0/all"])


def test_a_rank_that_never_votes_is_an_error_that_says_where_to_look(store):
    agree = SaveAgreements(store, rank=1, world_size=RANKS, timeout_s=0.2).agreement(0)
    with pytest.raises(EmberwardError) as caught:
        agree(True)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "K103 the ranks did not agree about the checkpoint",
        "  where     rank 1, save/0/0",
        "  expected  an answer of 3 ranks within 0.2 s",
    ]
    assert lines[-1] == "  next      look for a rank whose disk stands still; the saves before this one are untouched"
