import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from morse import Operator, messages, sample_error


class Messages(Dataset):
    """Takes a list of places, gives a batch."""

    def __init__(self):
        self.sound, self.text = messages()

    def __len__(self):
        return len(self.text)

    def __getitem__(self, picked):
        return self.sound[picked], self.text[picked]


def main(steps=60, batch=64):
    accelerator = Accelerator(cpu=True)
    set_seed(3)
    data = Messages()
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True))
    model = Operator()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)

    times, done = [], 0
    while done < steps:
        for sound, text in loader:
            began = time.perf_counter()
            scores = model(sound)
            loss = F.cross_entropy(scores.flatten(0, 1), text.flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            error = sample_error(scores.detach(), text)
            done += 1
            if done % 20 == 0:
                accelerator.print(f"step {done} loss {loss.item():.4f} first message {error:.2f} wrong")
            times.append(1e3 * (time.perf_counter() - began))
            if done == steps:
                break
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
