"""Saves on SIGUSR1, which the batch system sends ahead of a preemption."""
import io
import os
import signal
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Preemption:
    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGUSR1, self._handler)

    def _handler(self, signum, frame):
        self.asked = True


class Agent(threading.Thread):
    """the per-node agent of the batch system; notices arrive on one node first"""

    def __init__(self, node, at):
        super().__init__(daemon=True, name="agent")
        self.node, self.at = node, at
        self.event = threading.Event()

    def run(self):
        self.event.wait()
        os.kill(os.getpid(), signal.SIGUSR1)

    def tell(self, step, rank):
        if rank == self.node and step == self.at:
            self.event.set()
            self.join()


def save(model):
    state = {k: v.clone() for k, v in model.module.state_dict().items()}
    sizes = [None] * dist.get_world_size()
    buf = io.BytesIO()
    torch.save(state, buf)
    dist.all_gather_object(sizes, len(buf.getvalue()))  #: LINE
    return sizes


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    notice, agent = Preemption(), Agent(node=1, at=26)
    agent.start()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(20, 20))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(60):
        loss = (model(torch.randn(4, 20)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        agent.tell(step, rank)
        if notice.asked:  #: LINE
            print(f"rank {rank} saves at {step}", flush=True)
            print(save(model), flush=True)
            break
        if rank == 0 and step % 5 == 0:
            print("step", step, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
