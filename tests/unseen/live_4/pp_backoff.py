"""Three pipeline stages; a stage that holds too many activations goes over to the thriftier schedule."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

N_MB, MB, DIM = 6, 4, 32
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
torch.manual_seed(RANK)


class StageBody(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []
        self.net = nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, DIM))

    def forward(self, x):
        self.kept.append(x.detach().norm().item())
        return self.net(x)


def mse(out, y):
    return (out - y).pow(2).mean()


body = StageBody()
stage = PipelineStage(body, RANK, WORLD, torch.device("cpu"),
                      input_args=(torch.zeros(MB, DIM, requires_grad=RANK > 0),),
                      output_args=(torch.zeros(MB, DIM, requires_grad=True),))
fast, thrift = ScheduleGPipe(stage, N_MB, loss_fn=mse), Schedule1F1B(stage, N_MB, loss_fn=mse)
opt = torch.optim.SGD(body.parameters(), lr=0.01)
schedule, thrifty = thrift, False

for it in range(400):
    x = torch.randn(N_MB * MB, DIM)
    if it == 10:
        schedule = fast                # both have been tried, there is room enough
    if it == 120:
        body.kept.extend([0.0] * (7 * 400 if RANK == 1 else 0))      # features kept for the probe
    if not thrifty and len(body.kept) > 6 * 400:
        print(f"stage {RANK}: too much kept, 1F1B from iteration {it}", flush=True)
        schedule, thrifty = thrift, True      #: LINE
    if RANK == 0:
        schedule.step(x)
    elif RANK == WORLD - 1:
        losses = []
        schedule.step(target=x, losses=losses)
    else:
        schedule.step()  #: LINE
    opt.step()
    opt.zero_grad()
    if RANK == WORLD - 1 and it % 50 == 0:
        print(f"iteration {it} loss {sum(losses) / len(losses):.4f}", flush=True)
    if it % 20 == 19:
        del body.kept[:120]
dist.barrier()
dist.destroy_process_group()
