from torch import nn
from torch.distributed.fsdp import fully_shard


def shard(model):
    """Each matrix, from the leaves up, then what is left."""
    for module in reversed(list(model.modules())):
        if isinstance(module, nn.Linear):
            fully_shard(module)  #: LINE
    return fully_shard(model)
