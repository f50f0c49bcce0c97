"""gloo between ranks of a device, through host memory; the device is a stand-in. See docs/training.md."""

import inspect

import pytest
import torch

from emberward.checkpoint import PinnedMemory
from emberward.findings import ConfigError
from emberward.rank._device import choose_device, device_peak_bytes
from emberward.rank._staged import METHODS
from emberward.recipe import Backend, Device, load_recipe, resolve
from emberward.sources._calls import METHODS as RECORDED
from ranks.cases import engine_run
from ranks.staged_cases import FakeCudart, refused_calls, staged_calls, staged_engine


def test_values_are_bitwise_those_of_gloo_and_memory_is_used_again_and_released(pool):
    for rank, found in enumerate(pool.run(staged_calls, 3)):
        before = 10 * ((rank - 1) % 3)
        assert found["is_equal"]
        assert found["order"] == [[[before + k] * 5 for k in range(4)], [27] * 3, [3] * 4, [6] * 4]
        first, second, made, registered = found["buffers"]
        assert first == second, "the second round took no new memory"
        assert made == registered
        assert found["left"] == (0, 0)
        assert found["is_undone"]
        assert found["said"] == []


def test_memory_that_cuda_refuses_to_pin_is_said_once_and_used_all_the_same(pool):
    for found in pool.run(refused_calls, 2):
        assert found["values"] == (6.0, 10_000.0)
        assert found["said"] == ["host memory is not pinned (CUDA error 2 for 4096 bytes): copies are slower\n"]


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 2, "zero": 3, "accumulation": 2},
        {"pp": 2, "accumulation": 4},
        {"tp": 2},
        {"dp": 2, "pp": 2, "accumulation": 4, "zero": 2},
    ],
    ids=str,
)
def test_a_training_over_staged_transfers_is_bitwise_the_same(pool, layout):
    size = layout.get("dp", 1) * layout.get("pp", 1) * layout.get("tp", 1)
    plain = pool.run(engine_run, size, steps=3, **layout)
    for ours, theirs in zip(pool.run(staged_engine, size, steps=3, **layout), plain, strict=True):
        assert ours["copies"] > 0
        assert ours["loss"] == theirs["loss"]


def test_every_call_with_tensors_that_the_recorder_knows_is_staged():
    assert set(METHODS) == set(RECORDED) - {"barrier", "monitored_barrier"}


def test_pinned_memory_is_released_once_and_a_failure_to_is_an_error():
    cudart, memory = FakeCudart(), torch.empty(64, dtype=torch.uint8)
    pinned = PinnedMemory(memory, cudart)
    assert (pinned.is_pinned, cudart.registered) == (True, {memory.data_ptr(): 64})
    pinned.release()
    pinned.release()
    assert (pinned.is_pinned, cudart.registered) == (False, {})
    lost = PinnedMemory(memory, cudart)
    cudart.registered.clear()
    with pytest.raises(RuntimeError, match="cudaHostUnregister of 64 bytes: CUDA error 1"):
        lost.release()
    assert not PinnedMemory(memory, FakeCudart(code=1)).is_pinned


class FakeCuda:
    """What `choose_device` asks of torch.cuda."""

    def __init__(self, count):
        self.count, self.chosen = count, None

    def is_available(self):
        return self.count > 0

    def device_count(self):
        return self.count

    def set_device(self, device):
        self.chosen = device

    def get_device_name(self, device=None):
        return f"GPU {device}"

    def max_memory_allocated(self, device=None):
        return 12345 if device == torch.device("cuda", 1) else 0


@pytest.mark.parametrize(
    "name", ["is_available", "device_count", "set_device", "get_device_name", "max_memory_allocated"]
)
def test_the_stand_in_has_the_parameters_of_torch(name):
    own, theirs = (inspect.signature(getattr(owner, name)).parameters for owner in (FakeCuda(1), torch.cuda))
    assert [*own] == [*theirs]


def test_the_peak_of_a_rank_is_its_devices():
    assert device_peak_bytes(torch.device("cuda", 1), FakeCuda(2)) == 12345
    assert device_peak_bytes(torch.device("cpu"), FakeCuda(0)) is None


@pytest.mark.parametrize(
    ("device", "backend", "count", "found"),
    [
        (Device.CUDA, Backend.GLOO, 1, ("cuda:0", "gloo", True)),
        (Device.CUDA, Backend.GLOO, 2, ("cuda:1", "gloo", True)),
        (Device.CUDA, Backend.AUTO, 4, ("cuda:3", "nccl", False)),
        (Device.AUTO, Backend.GLOO, 4, ("cuda:3", "gloo", True)),
        (Device.AUTO, Backend.GLOO, 1, ("cpu", "gloo", False)),
        (Device.CPU, Backend.AUTO, 4, ("cpu", "gloo", False)),
    ],
)
def test_ranks_share_devices_over_gloo_alone(monkeypatch, device, backend, count, found):
    monkeypatch.setattr(torch, "cuda", FakeCuda(count))
    chosen = choose_device(device, backend, local_rank=3, local_world_size=4)
    assert (str(chosen.device), chosen.backend, chosen.is_staged) == found


@pytest.mark.parametrize(("backend", "count"), [(Backend.AUTO, 1), (Backend.NCCL, 3), (Backend.GLOO, 0)])
def test_too_few_devices_are_an_error_of_the_configuration(monkeypatch, backend, count):
    monkeypatch.setattr(torch, "cuda", FakeCuda(count))
    with pytest.raises(ConfigError, match="C104") as caught:
        choose_device(Device.CUDA, backend, local_rank=0, local_world_size=4)
    assert ("backend=gloo" in caught.value.next) == (count > 0)


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_nccl_without_cuda_is_refused_before_any_rank_starts(device):
    with pytest.raises(ConfigError) as caught:
        resolve(load_recipe("bloom_tiny", [f"device={device}", "backend=nccl"]), num_ranks=2, tokenizer_size=257)
    assert caught.value.text() == (
        "C104 NCCL carries calls between CUDA devices alone\n"
        "  where     command line\n"
        "  expected  device cuda with backend nccl\n"
        f"  found     backend=nccl (command line), device={device} (command line)\n"
        "  next      backend=auto, which takes NCCL on CUDA and gloo on the CPU, or device=cuda"
    )
