"""Whether a call has drawn random numbers. Needs torch."""

from typing import Any

import torch


def random_state() -> tuple[Any, ...]:
    """The states of the generators that calls draw from unless they are given one."""
    states: list[Any] = [torch.default_generator.get_state()]
    is_initialized: Any = torch.cuda.is_initialized
    if torch.cuda.is_available() and is_initialized():
        states += [(each.initial_seed(), each.get_offset()) for each in torch.cuda.default_generators]
    return tuple(states)


def is_random_state(state: tuple[Any, ...]) -> bool:
    """Whether the generators are in that state."""
    host, *devices = random_state()
    return bool(torch.equal(state[0], host)) and [*state[1:]] == devices
