from torch.distributed.fsdp import fully_shard


def shard(model):
    """Layer by layer, then what is left."""
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)
