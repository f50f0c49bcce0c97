from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def split(model, mesh):
    """Half of the hidden units on each rank."""
    plan = {}
    for index in range(len(model.layers)):
        plan[f"layers.{index}.wide"] = ColwiseParallel(output_layouts=Replicate())  #: LINE
        plan[f"layers.{index}.narrow"] = RowwiseParallel(input_layouts=Replicate())
    return parallelize_module(model, mesh, plan)
