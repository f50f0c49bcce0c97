from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def split(model, mesh):
    """Half of the hidden units on each rank."""
    plan = {}
    for index in range(len(model.layers)):
        plan[f"layers.{index}.wide"] = ColwiseParallel()
        plan[f"layers.{index}.narrow"] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)
