import torch
import torch.distributed as dist


class Averager:
    """Averages gradients over the ranks, group by group, while the step goes on."""

    def __init__(self):
        self.world = dist.get_world_size()
        self.open = []

    def start(self, parameters):
        grads = [p.grad for p in parameters]
        flat = torch.cat([g.flatten() for g in grads])
        work = dist.all_reduce(flat, async_op=True)
        work.wait()  #: LINE
        self.open.append((work, flat, grads))

    def finish(self):
        for work, flat, grads in self.open:
            work.wait()
            flat /= self.world
            for grad, part in zip(grads, flat.split([g.numel() for g in grads])):
                grad.copy_(part.view_as(grad))
        self.open.clear()
