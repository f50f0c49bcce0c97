"""Host memory that a device copies straight into. Needs torch."""

from typing import Any

import torch
from torch import Tensor

SUCCESS = 0
"""cudaSuccess (CUDA runtime API, Error Handling)."""


class PinnedMemory:
    """Registers `memory` with CUDA until `release`; `is_pinned` says whether that worked. Raises nothing for a refusal.

    Where it did not, copies take a detour and are the same. Registered memory must be released before it is unmapped
    (CUDA runtime API, cudaHostRegister). `cudart` is ``torch.cuda.cudart()``, or what has its functions.
    """

    def __init__(self, memory: Tensor, cudart: Any = None) -> None:
        cuda: Any = torch.cuda
        self._cudart = cuda.cudart() if cudart is None else cudart
        self._address = memory.data_ptr()
        self._memory: Tensor | None = memory
        self.code = int(self._cudart.cudaHostRegister(self._address, memory.nbytes, 0)) if memory.nbytes else SUCCESS
        """CUDA's answer."""

    @property
    def is_pinned(self) -> bool:
        """Whether the device copies straight into the memory now."""
        return self.code == SUCCESS and self._memory is not None

    def release(self) -> None:
        """Undoes the registration; at once a second time. Raises RuntimeError when CUDA does not: it still uses it."""
        memory, self._memory = self._memory, None
        if memory is None or self.code != SUCCESS or not memory.nbytes:
            return
        code = int(self._cudart.cudaHostUnregister(self._address))
        if code != SUCCESS:
            raise RuntimeError(f"cudaHostUnregister of {memory.nbytes} bytes: CUDA error {code}")
