"""One rank that adds numbers with the others for ever; torch alone, as a user writes it.

Its second attempt has a rank less, as an elastic launcher starts one, and ends after a few steps.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

is_again = os.environ.get("EMBERWARD_ATTEMPT") == "2"
if is_again:
    os.environ["WORLD_SIZE"] = str(int(os.environ["WORLD_SIZE"]) - 1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
weights = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
end = time.monotonic() + 300
number = 0
while time.monotonic() < end:
    weights(torch.ones(8)).sum().backward()
    for parameter in weights.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    number += 1
    if number == 20:
        sys.stdout.write(f"rank {os.environ['RANK']} is under way\n")
        sys.stdout.flush()
        if is_again:
            break
    time.sleep(0.02)
# Without it torch 2.13 may abort at the interpreter's end: a thread of gloo's still runs.
dist.destroy_process_group()
