"""accelerate: a short fine-tuning, then the main process writes a packed export."""
import frdump  # noqa: F401
import argparse
import io
import lzma

import torch
import torch.nn as nn
from accelerate import Accelerator


def export(model, path, copies):
    buffer = io.BytesIO()
    for i in range(copies):
        torch.save({k: v + i for k, v in model.state_dict().items()}, buffer)
    raw = buffer.getvalue()
    packer = lzma.LZMACompressor(preset=6)
    with open(path, "wb") as f:
        for at in range(0, len(raw), 1 << 20):
            f.write(packer.compress(raw[at:at + (1 << 20)]))
        f.write(packer.flush())
    return len(raw)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--copies", type=int, default=28)
    args = args.parse_args()
    acc = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, opt = acc.prepare(model, opt)
    for step in range(8):
        x = torch.randn(16, 512)
        loss = (model(x) - x).pow(2).mean()
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        acc.print(f"step {step} loss {loss.item():.4f}", flush=True)
    if acc.is_main_process:
        print("writing export.xz", flush=True)
        size = export(acc.unwrap_model(model), "export.xz", args.copies)
        print(f"packed {size >> 20} MiB", flush=True)
    acc.wait_for_everyone()
    acc.print("finished", flush=True)
    acc.end_training()


if __name__ == "__main__":
    main()
