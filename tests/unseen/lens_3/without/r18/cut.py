from torch import nn
from torch.distributed.fsdp import fully_shard


def cut(net, mesh):
    """Cut the net over the ranks."""
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net
