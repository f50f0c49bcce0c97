"""Torch's modes that belong to a thread: gradients, inference, autocast. A task runs in those of its submitter."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """What differs from a fresh thread's. `autocast`: (device type, dtype) of each that is on."""

    has_grad: bool
    is_inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]


def modes_now(device_type: str) -> Modes | None:
    """The calling thread's modes; None when they are those of a fresh thread."""
    has_grad, is_inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    kinds = ("cpu",) if device_type == "cpu" else ("cpu", device_type)
    autocast = tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind))
    if has_grad and not is_inference and not autocast:
        return None
    return Modes(has_grad=has_grad, is_inference=is_inference, autocast=autocast)


@contextlib.contextmanager
def in_modes(modes: Modes) -> Iterator[None]:
    """The calling thread has `modes` until the end."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(modes.is_inference))
        stack.enter_context(torch.set_grad_enabled(modes.has_grad))
        for kind, dtype in modes.autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype))
        yield
