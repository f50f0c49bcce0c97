"""RoBERTa on ranks beyond the grid: hidden tokens and dropout through a crash, a resume and another layout."""

import shutil

from ranks.cases import relative
from ranks.runs import curve
from ranks.save_cases import train

ALL_LOSSES = 1e-5


def test_a_run_is_resumed_bitwise_and_goes_on_alike_on_another_layout(pool, tmp_path):
    straight, crashed, other = (tmp_path / name for name in ("straight", "crashed", "other"))
    settings = {"steps": 6, "family": "roberta", "rate": 0.1, "accumulation": 2}
    pool.run(train, 2, folder=str(straight), tp=2, **settings)
    pool.run(train, 2, folder=str(crashed), tp=2, crash_at=5, **settings)
    assert curve(crashed) == curve(straight)[:5]
    shutil.copytree(crashed, other, symlinks=True)
    answers = pool.run(train, 2, folder=str(crashed), tp=2, **settings)
    assert {answer["resumed"] for answer in answers} == {4}
    assert curve(crashed) == curve(straight)
    pool.run(train, 4, folder=str(other), dp=2, pp=2, zero=3, **settings)
    losses = [[loss for _, loss, _, _ in curve(folder)] for folder in (other, straight)]
    assert relative(*losses) < ALL_LOSSES
