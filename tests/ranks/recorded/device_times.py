"""Ranks on the backend whose waits return at once; their device computes, and one of them is late in a way of its own.

    RANK=.. WORLD_SIZE=3 MASTER_ADDR=.. MASTER_PORT=.. python device_times.py KIND

Each step computes on the device, reduces a gradient, and reads its loss. Of rank 1 the device computes longer
(``slow_device``), or the host comes LATE_S later while the device still computes (``hidden_host``) or has nothing left
to do (``late_host``).
"""

import sys
import time

import torch
import torch.distributed as dist

from emberward.sources import cpu_nccl

STEPS = 60
KERNEL_S, SHORT_S, LATE_S = 0.060, 0.004, 0.030


def main(kind):
    cpu_nccl.register()
    dist.init_process_group(cpu_nccl.NAME)
    is_odd = dist.get_rank() == 1
    kernel_s = KERNEL_S + LATE_S * (is_odd and kind == "slow_device")
    loss, weights = torch.zeros(8), torch.zeros(1024, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for _ in range(STEPS):
        cpu_nccl.launch(lambda: time.sleep(SHORT_S if kind == "late_host" else kernel_s))
        # Of the late ones the host loads a batch meanwhile; the others have it.
        time.sleep(KERNEL_S + LATE_S if kind == "late_host" and is_odd else LATE_S * (is_odd and kind == "hidden_host"))
        if kind == "late_host" and not is_odd:
            time.sleep(KERNEL_S)
        weights.grad = torch.ones(1024)
        work = dist.all_reduce(weights.grad, async_op=True)
        work.wait()
        dist.all_reduce(loss)
        assert loss[0].item() == 0
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
