"""Mean of the gradients over the ranks, parameter by parameter, as they come out of the backward pass."""
import torch.distributed as dist


class Mean:
    def __init__(self, net):
        self.open = []
        self.world = dist.get_world_size()
        self.first = next(net.parameters())
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(self._ready)

    def _ready(self, p):
        p.grad.div_(self.world)
        work = dist.all_reduce(p.grad, async_op=True)
        work.wait()  #: LINE
        self.open.append(work)

    def settle(self):
        for work in self.open:
            work.wait()
        self.open.clear()
