from torch import nn
from torch.distributed.fsdp import fully_shard


def cut(net, mesh):
    """Cut the net over the ranks."""
    for block in net.blocks:
        for part in block.modules():
            if isinstance(part, (nn.LayerNorm, nn.PReLU)):
                fully_shard(part, mesh=mesh)  #: LINE
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net
