import statistics
import time

import torch

from masked import MaskedModel, mask_tokens

VOCAB, LENGTH, BATCH, STEPS = 1600, 64, 10, 64


def main():
    torch.manual_seed(21)
    corpus = torch.randint(2, VOCAB, (2000, LENGTH))
    model = MaskedModel(VOCAB, length=LENGTH)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=3e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    times = []
    for step in range(STEPS):
        begin = time.perf_counter()
        ids, labels = mask_tokens(corpus[torch.randint(len(corpus), (BATCH,))], VOCAB)
        loss = model(ids, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        times.append(1e3 * (time.perf_counter() - begin))
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.3f}")
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
