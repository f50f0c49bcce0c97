import json
import os
import tempfile
import time
from statistics import mean, median

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

from model import Captioner


def load():
    g = torch.Generator().manual_seed(8)
    words = torch.randint(1, 400, (4000, 21), generator=g)
    return TensorDataset(torch.randn(4000, 256, generator=g), words)


def write_preview(accelerator, model, pictures, path, step):
    if accelerator.is_main_process:
        said = accelerator.unwrap_model(model).tell(pictures)
        with open(path, "w") as f:
            json.dump({"step": step, "captions": said[::8].tolist()}, f)


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = Captioner()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(load(), batch_size=24, shuffle=True, drop_last=True)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    shown = torch.randn(4, 256)
    marks = []
    with tempfile.TemporaryDirectory() as folder:
        preview = os.path.join(folder, "preview.json")
        for step, (pictures, words) in enumerate(loader):
            logits = model(pictures, words[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            write_preview(accelerator, model, shown, preview, step)
            marks.append(time.perf_counter())
            if step == 61:
                break
        accelerator.wait_for_everyone()
    ms = [(b - a) * 1e3 for a, b in zip(marks, marks[1:])][3:]
    accelerator.print(f"{median(ms):.2f} ms/step median, {mean(ms):.2f} ms/step", flush=True)
    model, opt, loader, logits, loss = accelerator.free_memory(model, opt, loader, logits, loss)
    accelerator.end_training()


if __name__ == "__main__":
    main()
