import torch, torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
part = torch.nn.Linear(8, 8)
stage = PipelineStage(part, rank, size, torch.device("cpu"))
schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
for _ in range(2):
    if rank == 0:
        schedule.step(torch.randn(8, 8))
    elif rank == size - 1:
        losses = []
        schedule.step(target=torch.randn(8, 8), losses=losses)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
