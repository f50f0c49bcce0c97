"""What each test exercises of each part, of all tests at once and of one alone."""

import random
import subprocess
import sys
from itertools import combinations

from emberward.doctor import Fleet, Links
from emberward.doctor._belief import PRIORS
from emberward.doctor._exposure import Exposures, Parts
from emberward.doctor._faults import Kind, Part, Trial

HOSTS = ["a", "b", "c", "d"]
SWITCHES = {"a": ("leaf0", "spine"), "b": ("leaf0", "spine"), "c": ("leaf1", "spine"), "d": ("leaf1", "spine")}


def test_the_exposure_of_all_tests_at_once_is_that_of_each():
    fleet = Fleet.of(HOSTS, 3, switches=SWITCHES)
    parts = Parts(fleet)
    rng = random.Random(0)
    sets = [tuple(sorted(rng.sample(range(len(fleet)), rng.choice((1, 2, 3, 4, 8))))) for _ in range(60)]
    sets += [(0, 3), (0, 1, 3), (0, 1)]
    trials = [Trial(devices, links, 1, 1) for devices in sets for links in (*Links, None)]
    every = {part for devices in sets for part in parts.possible(devices)}
    every |= {Part(Kind.CUT, pair) for pair in combinations(HOSTS, 2)} | {Part(Kind.DEVICE, (99,))}
    assert {part.kind for part in every} == set(Kind)
    table = Exposures(parts, trials)
    for part in sorted(every, key=str):
        for scope in PRIORS[part.kind]:
            alone = [parts.exposure(part, scope, trial.devices, trial.links) for trial in trials]
            assert table.of(part, scope).tolist() == alone, (part, scope)


def test_a_probe_of_facts_loads_neither_the_examination_nor_numpy():
    code = "import sys, emberward.doctor.probe.__main__, emberward.doctor.probe._facts; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "emberward.doctor.probe._facts" in loaded
    assert not {"numpy", "torch", "emberward.doctor._plan", "emberward.doctor._examine"} & set(loaded)
