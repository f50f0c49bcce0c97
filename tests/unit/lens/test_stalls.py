"""Stalls planted into loops that run for real under the sampler, each beside a twin that does the work and no stall."""

import fcntl
import functools
import gc
import inspect
import io
import logging
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from unit.lens.stand_ins import POOL, STALL_S, Device, Scalar, wait

from emberward.findings import Cause
from emberward.lens import RankSamples, Sources, profile_of, read_samples
from emberward.sources._sampler import Sampler

STEPS = 24
LOG = logging.getLogger("lens-plants")
LOCK = threading.Lock()
IS_VERBOSE = False
SAMPLERS = []
TEXTS = io.StringIO()
SCORES = []


def work():
    """What a step does besides: some milliseconds of Python on the processor."""
    return sum(range(300_000))


class Held(torch.Tensor):
    """A tensor whose sizes only its device knows."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ == "nonzero":
            wait()
        return super().__torch_function__(func, types, args, kwargs or {})


rows_of = torch.nonzero
IN_DDP = {}
exec(  # A function of torch's that calls the program, as DDP's forward does.
    compile("def call(f):\n    return f()\n", str(Path(torch.__file__).parent / "nn/parallel/distributed.py"), "exec"),
    IN_DDP,
)


class Kernel(torch.autograd.Function):
    """An operation that a device of its own computes."""

    @staticmethod
    def forward(ctx, x):
        wait()
        return x * 2


def twin_operation_that_waits(step):
    Kernel.apply(PIXELS)


def release(file):
    wait()
    fcntl.flock(file, fcntl.LOCK_UN)


def debug(text):
    if IS_VERBOSE:
        print(text, file=TEXTS)


def show(text):
    if STEPS:
        SAMPLERS[-1].output(sys._getframe())  # As the lens does for each print.
        print(text, file=TEXTS)


def describe():
    wait()
    return "norm"


def plant_item(step):
    return Scalar().item()  # here


def plant_item_of_a_device(step):
    return Device().item()  # here


def plant_synchronize_of_a_device(step):
    Device().synchronize()  # here


def plant_tolist(step):
    return Scalar().tolist()  # here


def plant_cpu(step):
    return Scalar().cpu()  # here


def plant_nonzero(step):
    return Scalar().nonzero()  # here


def plant_bool(step):
    if Scalar():  # here
        return 1
    return 0


def plant_print(step):
    print(Scalar(), file=TEXTS)  # here


def plant_synchronize(step):
    Scalar().synchronize()  # here


def plant_debug_string(step):
    debug(f"step {step} {describe()}")  # here


def plant_debug_string_logged(step):
    LOG.debug("norm %s", describe())  # here


def plant_debug_string_variable(step):
    text = f"step {step} {describe()}"  # here
    debug(text)


def plant_lock(step):
    event = threading.Event()
    event.wait(STALL_S)  # here


def plant_lock_result(step):
    POOL.submit(wait).result()  # here


def plant_sleep(step):
    time.sleep(STALL_S)  # here


def plant_logging(step):
    LOG.info("step %d", step)  # here


def plant_import(step):
    sys.modules.pop("lens_slow_import", None)
    import lens_slow_import  # here

    return lens_slow_import


def plant_import_below_ddp(step):
    def forward():
        import lens_slow_import  # here

        return lens_slow_import

    sys.modules.pop("lens_slow_import", None)
    return IN_DDP["call"](forward)


def plant_nonzero_by_another_name(step):
    return rows_of(torch.ones(2).as_subclass(Held))  # here


def plant_lock_of_a_file(step):
    with tempfile.NamedTemporaryFile() as held, Path(held.name).open() as file:
        fcntl.flock(held, fcntl.LOCK_EX)
        POOL.submit(release, held)
        fcntl.flock(file, fcntl.LOCK_EX)  # here


DISK = SimpleNamespace(replace=functools.partial(time.sleep, STALL_S))


def keep():
    torch.save(step_of_a_save, io.BytesIO())  # here
    DISK.replace()


step_of_a_save = {"step": 1}


def plant_save_whose_file_is_moved(step):
    keep()


def twin_move_of_no_save(step):
    DISK.replace()


def plant_gc(step):
    gc.collect()  # here


class Terminal(io.StringIO):
    """A slow one: what it is given is there when it has been flushed."""

    def flush(self):
        wait()


def plant_print_to_a_terminal_of_its_own(step):
    print(step, file=Terminal(), flush=True)  # here


def row(step):
    TEXTS.write(f"{step}\n")
    time.sleep(STALL_S)


def plant_logging_by_a_function_that_only_writes(step):
    work()
    row(step)  # here


def write_and_compute(step):
    TEXTS.write(f"{step}\n")
    time.sleep(STALL_S)  # here
    return MODEL(HELD_OUT[:1])


def plant_sleep_of_a_function_that_also_writes(step):
    write_and_compute(step)


MODEL, HELD_OUT = torch.nn.Linear(512, 512), torch.ones(3000, 512)


def score(model):
    with torch.no_grad():
        return [float(model(HELD_OUT).sum()) for _ in range(2)]


def plant_eval_without_a_mode(step):
    SCORES.append(score(MODEL))  # here


class Judge:
    """Shows a model what it was not trained on; fetching that takes longer than the model does."""

    @torch.inference_mode()
    def score(self, model):
        wait()
        return float(model(HELD_OUT[:1]).sum())


def plant_eval_that_mostly_fetches(step):
    SCORES.append(Judge().score(MODEL))  # here


def goal_of(model):
    with torch.no_grad():
        return [model(HELD_OUT) for _ in range(2)]


def twin_teacher(step):
    goals = goal_of(MODEL)
    loss = sum((MODEL(HELD_OUT[:1]) - goal).square().mean() for goal in goals)
    loss.backward()


PIXELS, LABELS = torch.ones(200_000, 4), torch.arange(200_000) % 40
ROWS = [[float(each) for each in range(500)] for _ in range(500)]
MANY = torch.ones(24_000_000)
CHOICES, TABLE, WEIGHTS, FOUND = torch.arange(400) % 4, torch.rand(400, 50), torch.rand(50, 4000), torch.zeros(4, 4000)


def plant_nonzero_of_the_same_for_each_class(step):
    for each in range(40):
        PIXELS[each] = PIXELS[each == LABELS].mean(0)  # here


def plant_nonzero_with_all_that_is_reduced_for_each_class(step):
    for each in range(40):
        rows = PIXELS[each == LABELS]  # here
        PIXELS[each] = rows.std(0)
        PIXELS[each] += rows.amax(0) - rows.amin(0)


def twin_mask_of_each_part(step):
    for part in PIXELS[:400].chunk(4):
        PIXELS[0] = part[part[:, 0] > 0].mean(0)


def plant_host_copy_of_python_s_numbers(step):
    torch.tensor(ROWS)  # here


def twin_tensor_of_a_tensor(step):
    torch.as_tensor(PIXELS)


def is_sound(values):
    return bool(torch.isfinite(values).all())


def plant_bool_of_all_numbers(step):
    if not torch.isfinite(MANY).all():  # here
        raise ValueError


def twin_check_of_some_numbers(step):
    some = PIXELS[:9] * 2  # gives the interpreter away first, and has what a late look sees
    assert is_sound(some)


def twin_rows_of_each_expert_that_are_computed_with(step):
    choices = CHOICES
    for expert in range(4):
        rows = (choices == expert).nonzero(as_tuple=True)[0]
        FOUND[expert] = (TABLE[rows] @ WEIGHTS).sum(0)


def size_of(values):
    return values.std()


def plant_unused_result_of_a_helper(step):
    size = size_of(MANY)  # here
    if step % 1000 == 999:
        SCORES.append(size)


def twin_result_that_each_step_uses(step):
    size = size_of(MANY)
    SCORES[:] = [size]


CAUSES = {
    "plant_save_whose_file_is_moved": Cause.SAVE_IN_STEP,
    "plant_nonzero_of_the_same_for_each_class": Cause.NONZERO,
    "plant_nonzero_with_all_that_is_reduced_for_each_class": Cause.NONZERO,
    "plant_host_copy_of_python_s_numbers": Cause.HOST_COPY,
    "plant_bool_of_all_numbers": Cause.BOOL,
    "plant_unused_result_of_a_helper": Cause.UNUSED_RESULT,
    "plant_eval_without_a_mode": Cause.EVAL,
    "plant_eval_that_mostly_fetches": Cause.EVAL,
    "plant_print_to_a_terminal_of_its_own": Cause.PRINT,
    "plant_logging_by_a_function_that_only_writes": Cause.LOGGING,
    "plant_sleep_of_a_function_that_also_writes": Cause.SLEEP,
    "plant_item_of_a_device": Cause.ITEM,
    "plant_synchronize_of_a_device": Cause.SYNCHRONIZE,
    "plant_debug_string_logged": Cause.DEBUG_STRING,
    "plant_debug_string_variable": Cause.DEBUG_STRING,
    "plant_lock_result": Cause.LOCK,
    "plant_lock_of_a_file": Cause.LOCK,
    "plant_import_below_ddp": Cause.IMPORT,
    "plant_nonzero_by_another_name": Cause.NONZERO,
}


class SlowHandler(logging.Handler):
    def emit(self, record):
        wait()


@pytest.fixture(scope="module", autouse=True)
def pool_ends():
    """No thread of this file outlives it."""
    yield
    POOL.shutdown()


@pytest.fixture
def slow_log():
    handler = SlowHandler()
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    LOG.addHandler(handler)
    yield
    LOG.removeHandler(handler)


def twin_rare_item(step):
    if step == STEPS // 2:
        Scalar().item()


def twin_synchronize_every_twelfth_step(step):
    if step % 12 == 11:
        for _ in range(4):
            Scalar().synchronize()


def twin_printed(step):
    show(f"step {step} {sum(range(40_000))}")


def twin_guarded(step):
    if IS_VERBOSE:
        debug(f"step {step} {describe()}")


def twin_lazy(step):
    LOG.debug("norm %s", step)


def twin_free_lock(step):
    with LOCK:
        return sum(range(40_000))


def twin_free_lock_of_a_file(step):
    with tempfile.NamedTemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def twin_another_name_of_a_fixed_size(step):
    return rows_of(torch.ones(2))


def twin_own_item(step):
    return {"item": 1}.items()


MARKED = {
    "plant_save_whose_file_is_moved": keep,
    "plant_sleep_of_a_function_that_also_writes": write_and_compute,
}
"""The function with the line, where it is another one."""


def line_of(function) -> int:
    """The line of the mark ``# here``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if "# here" in line)


def measure(folder, plant, *, rank: int = 0) -> RankSamples:
    path = folder / f"rank{rank:05d}-1.lens"
    head = {"rank": rank, "world_size": None, "device": "cpu"}
    sampler = Sampler(path, warmup=1, num_steps=STEPS, head=lambda: head, flag=lambda: "")
    SAMPLERS.append(sampler)
    for step in range(STEPS + 2):
        work()
        plant(step)
        sampler.stepped()
    sampler.end()
    return read_samples(path)


def stalls(*ranks):
    return [each for each in profile_of(ranks, Sources(), asked_warmup=1).findings if each.code == "P101"]


@pytest.fixture
def own_heap():
    """Collections look at objects of ours alone: over those of a whole session of tests each would take a second."""
    gc.freeze()
    yield [[] for _ in range(300_000)]
    gc.unfreeze()


@pytest.mark.parametrize("name", [name for name in list(globals()) if name.startswith("plant_")])
def test_a_planted_stall_is_named_with_its_line_and_its_cost(name, tmp_path, monkeypatch, slow_log, own_heap):
    plant = globals()[name]
    (tmp_path / "lens_slow_import.py").write_text(f"import time\ntime.sleep({STALL_S})\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = stalls(measure(tmp_path, plant))
    wanted = CAUSES.get(name) or Cause(name.removeprefix("plant_"))
    assert [(each.cause, each.site) for each in found] == [(wanted, f"{__file__}:{line_of(MARKED.get(name, plant))}")]
    if wanted is not Cause.GC:
        # About 30 looks fall into all stalls together: half of the cost is three standard deviations below it.
        assert found[0].cost_ms_per_step >= 500 * STALL_S
    assert 0 < found[0].gain_ms_per_step <= found[0].cost_ms_per_step


@pytest.mark.parametrize("name", [name for name in list(globals()) if name.startswith("twin_")])
def test_a_look_alike_is_not_accused(name, tmp_path):
    assert stalls(measure(tmp_path, globals()[name])) == []


@pytest.mark.parametrize(("share", "wanted"), [(0.3, {Cause.TOLIST: 1.0}), (0.6, {Cause.GC: 0.6, Cause.TOLIST: 1.0})])
def test_collections_in_a_call_are_its_own_cost_and_told_besides_where_they_are_most_of_it(share, wanted, tmp_path):
    rank = measure(tmp_path, plant_tolist)
    (cost_ms,) = (each.cost_ms_per_step for each in stalls(rank))
    stacks = [each for each in rank.stacks if all(place.function != "tolist" for place in each.stack)]
    for each in (each for each in rank.stacks if each not in stacks):
        for flag, part in (("", 1 - share), ("gc", share)):
            steps = {step: (wall * part, cpu * part) for step, (wall, cpu) in each.steps.items()}
            stacks.append(replace(each, flag=flag, steps=steps))
    found = stalls(replace(rank, stacks=tuple(stacks)))
    assert {each.cause: each.cost_ms_per_step / cost_ms for each in found} == pytest.approx(wanted, rel=0.01)
    said = {each.cause: [line for line in each.evidence if "collect" in line] for each in found}
    assert said.pop(Cause.TOLIST) == [f"{share * cost_ms:.2f} ms a step of it collect the garbage of what it makes"]
    also = ["in the gain of tolist at this line too, which makes what is collected"]
    assert said == ({Cause.GC: also} if Cause.GC in wanted else {})
