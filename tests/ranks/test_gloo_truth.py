"""The judge against reality: random programs judged, then really executed on gloo."""

import pytest

from emberward.events import Trace, to_lines
from emberward.match import Outcome, check
from ranks.gloo_replay import random_host_program, replay_on_gloo

LIMIT_S = {True: 60.0, False: 2.5}
"""For the programs that the judge calls safe, and for those of which it says that they never end."""
NUM_BY_SIZE = {2: 14, 4: 12}
"""Programs of one part by number of ranks: 104 in the four parts."""


def finished_on_gloo(pool, folder, traces: dict[int, Trace], limit_s: float) -> dict[int, tuple[bool, list[str]]]:
    """By seed: whether all ranks of the program came to its end within the limit, and what gloo said."""
    folder.mkdir()
    programs = [list(to_lines(trace)) for trace in traces.values()]
    answers = pool.run(replay_on_gloo, 8, folder=str(folder), programs=programs, limit_s=limit_s)
    found = {}
    for number, seed in enumerate(traces):
        said = [answer[number] for answer in answers if number in answer]
        assert len(said) == traces[seed].world_size
        found[seed] = all(is_finished for is_finished, _ in said), [why for _, why in said]
    return found


@pytest.mark.parametrize("part", range(4))
def test_gloo_does_what_the_judge_says(pool, tmp_path, part):
    wrong, num_judged = [], {True: 0, False: 0}
    for size, count in NUM_BY_SIZE.items():
        first = 1000 * size + part * count
        traces = {seed: random_host_program(seed, size) for seed in range(first, first + count)}
        safe = {seed: check(trace).outcome is Outcome.SAFE for seed, trace in traces.items()}
        for is_safe, limit_s in LIMIT_S.items():
            chosen = {seed: trace for seed, trace in traces.items() if safe[seed] is is_safe}
            num_judged[is_safe] += len(chosen)
            for seed, (is_finished, why) in finished_on_gloo(
                pool, tmp_path / f"{size}-{is_safe}", chosen, limit_s
            ).items():
                if is_finished is not is_safe:
                    judged = "safe" if is_safe else "stuck"
                    wrong.append(f"seed {seed}, {size} ranks: judged {judged}, gloo says {why}")
    assert wrong == []
    assert min(num_judged.values()) >= 5
