import torch.distributed as dist


def broadcast_model(model):
    for t in model.state_dict().values():
        dist.broadcast(t, 0)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
        param.grad /= size
