"""Python's own work beside the model: what is told of stacks that are written down."""

import json
from dataclasses import replace

import pytest
import torch
from unit.lens.test_alike import seen_of
from unit.lens.test_logs_and_lists import RANK
from unit.lens.test_stalls import line_of

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources, tell
from emberward.lens._causes import Told
from emberward.lens._python_work import with_python_work

PROGRAM = """for step in range(99):
    rows = fetch(step)
    loss = model(rows)
    pairs = sorted(match(loss))
    total = score(loss, pairs)
    total.backward()
    watch.look(model)
    for name in names:
        tally[name] = len(name.split())
        order = dict(zip(tally, names))
def look(self, model):
    for each in model.parts():
        counts = np.histogram(each)
        self.rows.append(counts)
"""
NUMPY = Instruction("/x/site-packages/numpy/lib/histograms.py", "histogram", 1, "package", 9, 9, 4, 9, "CALL")
KERNEL = Instruction("/x/torch/functional.py", "norm", 1, "platform", 9, 9, 4, 9, "CALL")
BUSY_S, WAITING_S = (0.1, 0.1), (0.1, 0.02)


def at(line, text, function="<module>"):
    column = PROGRAM.splitlines()[line - 1].index(text)
    return Instruction("train.py", function, 1, "user", line, line, column, column + len(text), "CALL")


LOOKS, COUNTS, KEEPS = (
    at(7, "watch.look(model)"),
    at(13, "np.histogram(each)", "look"),
    at(14, "self.rows.append(counts)", "look"),
)
SPLITS, ORDERS, SORTS = at(9, "name.split()"), at(10, "dict(zip(tally, names))"), at(4, "sorted(match(loss))")
TRAINS = (KERNEL, at(3, "model(rows)"))


def told_of(*stacks, known=(), spent=BUSY_S, flag=""):
    """The sites that are told of each stack, all of which take as long, beside the model."""
    seen = [Sampled(stack=stack, flag=flag, steps={0: spent}) for stack in stacks]
    seen.append(Sampled(stack=TRAINS, flag="", steps={0: (1.0, 1.0)}))
    rank = replace(RANK, loop=(("train.py", "<module>", 1),), stacks=tuple(seen))
    known = (*known, *(None for _ in range(len(seen) - len(known))))
    *found, model = with_python_work(rank, known, Sources(lambda file: PROGRAM if file == "train.py" else ""))
    assert model is None
    assert all(each is None or each.cause is Cause.PYTHON_WORK or each in known for each in found)
    return [each and each.site.removeprefix("train.py:") for each in found]


def test_what_is_below_one_statement_is_told_at_the_line_that_has_most_of_it():
    assert told_of((NUMPY, COUNTS, LOOKS), (NUMPY, COUNTS, LOOKS), (KEEPS, LOOKS)) == ["13", "13", "13"]


def test_where_no_line_has_most_of_it_the_statement_is_told():
    assert told_of((SPLITS,), (ORDERS,)) == ["8", "8"]


def test_a_statement_that_mostly_does_something_else_is_not_told_as_a_whole():
    others = [(KERNEL, COUNTS, LOOKS)] * 3
    assert told_of((KEEPS, LOOKS), *others) == ["14", None, None, None]


def test_what_the_loss_is_computed_from_is_needed():
    assert told_of((SORTS,)) == [None]


@pytest.mark.parametrize(("spent", "flag"), [(WAITING_S, ""), (BUSY_S, "eval"), (BUSY_S, "gc")])
def test_waits_evaluations_and_collections_are_none(spent, flag):
    assert told_of((NUMPY, COUNTS, LOOKS), spent=spent, flag=flag) == [None]


def test_what_a_rule_knows_stays_as_it_was_told():
    known = Told(cause=Cause.LOGGING, site="train.py:14")
    assert told_of((KEEPS, LOOKS), (NUMPY, COUNTS, LOOKS), known=(known,)) == ["14", "13"]


FETCHES = at(2, "fetch(step)")
JSON = Instruction("/usr/lib/python3.11/json/__init__.py", "loads", 1, "platform", 9, 9, 4, 9, "CALL")


@pytest.mark.parametrize(
    ("returned", "cause", "line"),
    [
        ([], Cause.DATA_WAIT, 2),
        ([(2, "loads")], Cause.REDUNDANT_WORK, 2),
        ([(2, "other"), (3, "loads")], Cause.DATA_WAIT, 2),
    ],
)
def test_what_was_made_before_need_not_come_sooner(returned, cause, line):
    sampled = Sampled(stack=(JSON, FETCHES), flag="", steps={0: BUSY_S})
    called = frozenset(("train.py", number, name) for number, name in returned)
    rank = replace(RANK, loop=(("train.py", "<module>", 1),), returned=called)
    told = tell(sampled, rank, Sources(lambda file: PROGRAM if file == "train.py" else ""))
    assert (told.cause, told.site) == (cause, f"train.py:{line}")


def settings():
    return json.loads(TEXT)  # here


def weather(step):
    return json.loads(TEXTS[step % len(TEXTS)])


TEXT = json.dumps({f"lamp {k}": [k, k / 3] for k in range(20_000)})
TEXTS = [json.dumps({f"day {k}": [k, k / day] for k in range(20_000)}) for day in range(1, 9)]
WEIGHT = torch.ones(100, 100)


def test_a_function_that_gives_the_same_in_each_compared_step_is_seen_by_the_probe(tmp_path):
    def program(step):
        return WEIGHT @ WEIGHT * settings()["lamp 3"][0] * weather(step)["day 3"][0]

    operations, _ = seen_of(program, tmp_path)
    called = {name: (line, again.share) for (_, line, name), again in operations.returned.items()}
    assert called["settings"][1] == 1.0 and "weather" not in called
    assert called["loads"] == (line_of(settings), 1.0)
