"""Anomaly mode left on, for real under the sampler, and the same program without it."""

from dataclasses import replace

import pytest
import torch
from unit.lens.test_logs_and_lists import RANK
from unit.lens.test_stalls import line_of, measure, stalls
from unit.lens.test_work import NONE, rank_of

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources, samples_of, tell
from emberward.lens._debug_modes import _ANOMALY, CHECKPOINTING, _switched
from emberward.lens._source import Source
from emberward.lens._stalls import Stall, with_checks
from emberward.lens._work import NODE

MODEL = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()) for _ in range(20)))
INPUTS = torch.ones(4, 16)


def trains(step):
    MODEL(INPUTS).sum().backward()


def trains_in_a_debug_mode(step):
    with torch.autograd.detect_anomaly():  # here
        trains(step)


def trains_in_a_mode_that_is_off(step):
    with torch.autograd.set_detect_anomaly(False):
        trains(step)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_is_named_at_the_line_that_switches_it_on(tmp_path):
    (found,) = stalls(measure(tmp_path, trains_in_a_debug_mode))
    assert (found.cause, found.site) == (Cause.DEBUG_MODE, f"{__file__}:{line_of(trains_in_a_debug_mode)}")


def test_a_mode_that_is_off_costs_nothing(tmp_path):
    assert stalls(measure(tmp_path, trains_in_a_mode_that_is_off)) == []


MEANS = torch.zeros(512, 8)


def samples_of_a_policy(step, **options):
    for _ in range(100):
        torch.distributions.Normal(MEANS, 1.0, **options).log_prob(MEANS)  # here


def samples_without_checks(step):
    samples_of_a_policy(step, validate_args=False)


def test_checks_of_a_distribution_s_arguments_are_a_mode_that_can_be_left_off(tmp_path):
    found = {(each.cause, each.site) for each in stalls(measure(tmp_path, samples_of_a_policy))}
    assert (Cause.DEBUG_MODE, f"{__file__}:{line_of(samples_of_a_policy)}") in found
    assert all(each.cause is not Cause.DEBUG_MODE for each in stalls(measure(tmp_path, samples_without_checks)))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nTrainingArguments(debug='underflow_overflow')\n", 2),
        ("\n\nDebugUnderflowOverflow(model)\n", 3),
        ("", 1),
    ],
)
def test_a_library_s_own_mode_is_told_where_it_is_switched_on(text, line):
    looks = Instruction(
        "/x/site-packages/transformers/debug_utils.py", "get_abs_min_max", 1, "package", 9, 9, 4, 9, "CALL"
    )
    start = Instruction("train.py", "main", 1, "user", 1, 1, 0, 9, "CALL")
    rank = replace(RANK, loop=(("train.py", "main", 1),))
    sources = Sources(lambda file: "trainer.train()" + text if file == "train.py" else "")
    found = tell(Sampled(stack=(looks, start), flag="", steps={0: (0.01, 0.01)}), rank, sources)
    assert (found.cause, found.site) == (Cause.DEBUG_MODE, f"train.py:{line}")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("f(detect_anomaly=True)\n", [1]),
        ("f(detect_anomaly=False)\n", []),
        ("given = {\n    'detect_anomaly': level > 1,\n}\nf(**given)\n", [2]),
        ("f(**{'detect_anomaly': False})\n", []),
        ("shown = ['detect_anomaly']\n", []),
    ],
)
def test_an_argument_switches_it_on_in_a_dictionary_too(text, lines):
    assert list(_switched(Source(text=text, file="train.py", of=None), _ANOMALY)) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("args = TrainingArguments(out,\n    gradient_checkpointing=True)\n", [2]),
        ("args = TrainingArguments(out, gradient_checkpointing=False)\n", []),
        ("model = build()\nmodel.gradient_checkpointing_enable()\n", [2]),
        ("model.set_grad_checkpointing(False)\n", []),
        ("more = {'gradient_checkpointing': True}\nargs = TrainingArguments(out, **more)\n", [1]),
    ],
)
def test_a_library_is_asked_for_checkpoints_by_an_argument_or_a_call(text, lines):
    assert list(_switched(Source(text=text, file="train.py", of=None), CHECKPOINTING)) == lines


def test_its_looks_for_nan_in_the_backward_are_its_cost_too():
    checks = [(f"aten::{name}", NONE, at, 0.5, -1, False) for name, at in (("isnan", 5.0), ("any", 5.5), ("item", 6.0))]
    rows = [(f"{NODE}MmBackward0", NONE, 4.0, 3.0, 7, False), *checks, ("aten::isnan", NONE, 8.0, 1.0, -1, False)]
    operations = rank_of(0, rows)
    samples = measured_of(operations)
    stall = Stall(
        cause=Cause.DEBUG_MODE, site="train.py:3", inner=None, cost_s=0.001, gain_s=0.001, share=0.1, ranks=(0,),
        num_steps=5, of_steps=5,
    )  # fmt: skip
    (found,) = with_checks([stall], [operations], [samples], Sources())
    assert (found.cost_s, found.gain_s, found.share) == pytest.approx((0.0025, 0.0025, 0.25))
    other = replace(stall, cause=Cause.ITEM)
    assert with_checks([other], [operations], [samples], Sources()) == (other,)


def test_they_are_told_alone_where_the_stacks_cost_little():
    checks = [(f"aten::{name}", NONE, at, 0.5, -1, False) for name, at in (("isnan", 5.0), ("any", 5.5), ("item", 6.0))]
    operations = rank_of(0, [(f"{NODE}MmBackward0", NONE, 4.0, 3.0, 7, False), *checks])
    samples = replace(measured_of(operations), loop=(("train.py", "main", 1),))
    text = "def main():\n    set_detect_anomaly(True)\n"
    (found,) = with_checks([], [operations], [samples], Sources(lambda file: text))
    assert (found.cause, found.site, found.cost_s) == (Cause.DEBUG_MODE, "train.py:2", pytest.approx(0.0015))
    assert with_checks([], [operations], [samples], Sources(lambda file: "")) == ()


def measured_of(operations):
    """Samples of steps as long as the observed ones."""
    document = {
        "form": 1, "pid": 1, "first_step": 0, "period_ns": 1, "queue_ns": 0, "has_cpu_time": True, "outputs": [],
        "loop": [], "is_last": True, "rank": 0, "world_size": 1, "device": "cpu",
        "bounds_ns": [int(1e9 * each) for each in operations.bounds_s],
    }  # fmt: skip
    return samples_of([document, {"end": True}])


@pytest.mark.parametrize(("text", "lines"), [("y = x.sum()\n", []), ("f(detect_anomaly=True)\n", [1])])
def test_only_a_file_with_the_name_of_a_switch_is_looked_through(text, lines):
    source = Source(text=text, file="train.py", of=None)
    assert list(_switched(source, _ANOMALY)) == lines
    assert ("tree" in vars(source)) == bool(lines)
