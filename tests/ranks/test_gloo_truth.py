"""The judge against reality: random programs judged, then really executed on gloo."""

from emberward.events import to_lines
from emberward.match import Outcome, check
from ranks.gloo_replay import random_host_program, replay_on_gloo

SAFE_S, STUCK_S = 30.0, 1.5
NUM_BY_SIZE = {2: 56, 4: 48}
"""Programs by number of ranks: 104 in all."""


def disagreements(pool, folder, seeds: list[int], size: int) -> tuple[list[str], int]:
    """What judge and gloo disagree on, one line each, and how many programs hung."""
    found, num_hung = [], 0
    abreast = 8 // size
    for start in range(0, len(seeds), abreast):
        batch = seeds[start : start + abreast]
        traces = [random_host_program(seed, size) for seed in batch]
        safe = [check(trace).outcome is Outcome.SAFE for trace in traces]
        place = folder / f"{size}-{start}"
        place.mkdir()
        answers = pool.run(
            replay_on_gloo,
            8,
            folder=str(place),
            programs=[list(to_lines(trace)) for trace in traces],
            limits_s=[SAFE_S if each else STUCK_S for each in safe],
        )
        for number, (seed, is_safe) in enumerate(zip(batch, safe, strict=True)):
            finished = all(is_right for program, is_right, _ in answers if program == number)
            num_hung += not finished
            if finished != is_safe:
                why = [why for program, _, why in answers if program == number]
                found.append(f"seed {seed}, {size} ranks: judged {'safe' if is_safe else 'stuck'}, gloo says {why}")
    return found, num_hung


def test_gloo_does_what_the_judge_says(pool, tmp_path):
    wrong, hung = [], 0
    for size, count in NUM_BY_SIZE.items():
        lines, num_hung = disagreements(pool, tmp_path, [1000 * size + seed for seed in range(count)], size)
        wrong += lines
        hung += num_hung
    assert wrong == []
    assert 20 < hung < 84
