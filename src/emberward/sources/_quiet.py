"""What is called in the program's own thread raises nothing there. Standard library only."""

import functools
from collections.abc import Callable
from typing import Any


def quiet(call: Callable[..., object], failed: Callable[[Exception], None]) -> Callable[..., None]:
    """`call`, whose result nobody uses; an exception of its own goes to `failed`, not to what called it."""

    @functools.wraps(call)
    def called(*args: Any, **named: Any) -> None:
        try:
            call(*args, **named)
        except Exception as error:  # noqa: BLE001 (a program is not ended because it is profiled)
            failed(error)

    return called
