"""Copies to a device and retries of its allocator, with a device that this file plays on the processor."""

import inspect

import pytest
import torch
from unit.lens.test_profile import FILE, ITEM, STEP_NS, lines, profile
from unit.lens.test_work import HEAD

from emberward.findings import Cause
from emberward.lens import Sources, operations_of, profile_of, read_operations, read_samples, samples_of
from emberward.sources import lens
from emberward.sources._operations import NUM_STEPS, OperationProbe
from emberward.sources._sampler import Sampler

MS = 1_000_000


class OnDevice(torch.Tensor):
    device = torch.device("cuda")


class Pinned(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__ == "is_pinned" or super().__torch_function__(func, types, args, kwargs or {})


def moved(tensor, device=None, **named):
    del tensor, named
    return torch.ones(2).as_subclass(OnDevice) if device == "cuda" else torch.ones(2)


def test_lines_that_copy_from_memory_that_is_not_pinned_are_known_and_nothing_stays_wrapped(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "to", moved)
    pageable, pinned = torch.ones(2), torch.ones(2).as_subclass(Pinned)
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        pageable.to("cuda")
        first = inspect.currentframe().f_lineno - 1
        pinned.to("cuda", non_blocking=True)
        pageable.to(torch.float64)
        torch.ones(2).copy_(pageable)
        torch.ones(2).as_subclass(OnDevice).copy_(pageable)
        second = inspect.currentframe().f_lineno - 1
        probe.stepped()
    probe.write()
    assert read_operations(tmp_path / "rank.ops").pageable == {f"{__file__}:{first}", f"{__file__}:{second}"}
    assert torch.Tensor.to is moved and "copy_" not in vars(torch.Tensor)


@pytest.mark.parametrize("busy", [0.0, 1.0])
def test_a_copy_from_memory_that_is_not_pinned_is_told_as_that_whatever_the_processor_does(busy):
    text = "for step in range(100):\n    x = images.to(device)\n    loss = model(x)\n    loss.backward()\n"
    ranks = [samples_of(lines(stack=[*ITEM[:4], 2, 2, 8, 25, "CALL"], busy=busy))]

    def causes(*sites):
        seen = operations(*sites)
        found = profile_of(ranks, Sources(lambda file: text if file == FILE else ""), asked_warmup=5, operations=seen)
        return [each.cause for each in found.findings if each.code == "P101"]

    assert causes(f"{FILE}:2") == [Cause.PAGEABLE_COPY]
    assert causes(f"{FILE}:4") == ([] if busy else [Cause.HOST_COPY])


def operations(*sites):
    head = {
        **HEAD, "form": 1, "offset_ns": 0, "bounds_ns": [0, STEP_NS], "threads": 1, "free_bytes": None,
        "why_short": None, "is_cut": False, "pageable": sites,
    }  # fmt: skip
    return [operations_of([head, {"end": True}])]


# -- the allocator -----------------------------------------------------------------------------------------------------


def memory_stats(device=None):
    """With the signature of torch's; the count grows by one each time."""
    assert device is None
    memory_stats.asked += 1
    return {"num_alloc_retries": memory_stats.asked, "num_ooms": 0}


def test_the_allocator_s_count_is_kept_at_each_step_s_end(tmp_path, monkeypatch):
    assert (
        inspect.signature(memory_stats).parameters.keys()
        == inspect.signature(torch.cuda.memory_stats).parameters.keys()
    )
    memory_stats.asked = 0
    assert lens._retries() == 0
    monkeypatch.setattr(torch.cuda, "memory_stats", memory_stats)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    head = {"rank": 0, "world_size": None, "device": "cuda"}
    sampler = Sampler(tmp_path / "rank.lens", warmup=1, num_steps=3, head=lambda: head, flag=str, retries=lens._retries)
    for _ in range(4):
        sampler.stepped()
    sampler.end()
    assert read_samples(tmp_path / "rank.lens").retried == {1: 1, 2: 1, 3: 1}


def retried(steps, *, longer_ms, counted=None):
    """Ten steps of 100 ms, of which some are longer at line 3 by so much; the allocator tried again in `counted`."""
    told = lines(item_ns=0)
    extra = {step: longer_ms * MS if step in steps else 0 for step in range(5, 15)}
    bounds, counts = [0], [7]
    for step in range(5, 15):
        bounds.append(bounds[-1] + STEP_NS + extra[step])
        counts.append(counts[-1] + 2 * (step in (steps if counted is None else counted)))
    told[0] |= {"bounds_ns": bounds, "retries": counts}
    told[4]["steps"] = {step: [STEP_NS + extra[step], STEP_NS] for step in range(5, 15)}
    return told


def test_steps_in_which_the_allocator_tries_again_are_a_warning_in_these_words():
    (finding,) = profile(retried(range(5, 15, 2), longer_ms=40)).findings
    assert (finding.code, finding.message, finding.site) == (
        "P101",
        "allocator_retry: rank 0 waits for the device's allocator, which frees its cache and tries again: "
        "20.00 ms a step, 16.7%",
        f"{FILE}:3",
    )
    assert (finding.cause, finding.gain_ms_per_step) == (Cause.ALLOCATOR_RETRY, 20.0)


@pytest.mark.parametrize(
    ("steps", "longer_ms", "counted"),
    [((7,), 60, None), (range(5, 15, 2), 0, None), (range(5, 15, 2), 40, ()), (range(5, 15, 2), 40, range(6, 16, 2))],
)
def test_steps_that_are_no_longer_for_it_are_not_told(steps, longer_ms, counted):
    assert [each.cause for each in profile(retried(steps, longer_ms=longer_ms, counted=counted)).findings] == []


def test_what_retries_in_every_step_cost_is_said_to_be_missing():
    (finding,) = profile(retried(range(5, 15), longer_ms=40)).findings
    assert (finding.code, finding.message) == (
        "P111",
        "a part of the profile is missing: what the allocator's 20 retries of rank 0 cost, as no steps are without",
    )
