import statistics
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForMaskedLM

from masking import hide

VOCABULARY, STEPS = 1200, 62


def sentences(count, length):
    g = torch.Generator().manual_seed(3)
    start = torch.randint(5, VOCABULARY, (count, 1), generator=g)
    return (start - 5 + 7 * torch.arange(length)) % (VOCABULARY - 5) + 5


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=144, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=288, max_position_embeddings=72)
    loader = DataLoader(sentences(1200, 56), batch_size=18, shuffle=True, drop_last=True)
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    marks = [time.perf_counter()]
    for step, ids in enumerate(loader):
        ids, labels = hide(ids, VOCABULARY)
        loss = model(input_ids=ids, labels=labels).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        marks.append(time.perf_counter())
        if step == STEPS - 1:
            break
    ms = [(b - a) * 1000 for a, b in zip(marks, marks[1:])][3:]
    accelerator.print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
    accelerator.end_training()


main()
