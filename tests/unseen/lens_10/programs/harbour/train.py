import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from ships import Detector, scenes
from show import show

STEPS = 63


def main():
    torch.manual_seed(0)
    acc = Accelerator(cpu=True)
    model = Detector()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, opt, loader = acc.prepare(model, opt, DataLoader(TensorDataset(*scenes(128)), batch_size=12, shuffle=True, drop_last=True))
    spent, step = [], 0
    with tempfile.TemporaryFile("w", buffering=1) as out:
        while step < STEPS:
            for x, boxes, there in loader:
                begin = time.perf_counter()
                place, score = model(x)
                loss = F.binary_cross_entropy_with_logits(score, there) + (F.l1_loss(place, boxes, reduction="none").mean(-1) * there).mean()
                opt.zero_grad()
                acc.backward(loss)
                opt.step()
                show(step, place.detach(), score.detach().sigmoid(), file=out)
                step += 1
                spent.append((time.perf_counter() - begin) * 1000)
                if step == STEPS:
                    break
    acc.print(f"{statistics.median(spent[3:]):.2f} ms/step median, {statistics.mean(spent[3:]):.2f} ms/step")
    acc.free_memory()
    del model, opt
    if dist.is_initialized():
        dist.destroy_process_group()


main()
