"""Teaches a small language model to end a line in rhyme, by reward."""
import statistics
import time

import torch
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from rollout import rhymes, write_on


def scores_of(model, tokens, start):
    """Log-probabilities of the tokens that were written."""
    logits = model(tokens[:, :-1], use_cache=False).logits[:, start - 1:]
    return F.log_softmax(logits, -1).gather(-1, tokens[:, start:].unsqueeze(-1)).squeeze(-1)


def main(steps=60, batch=4, start=40, new=5, words=256):
    torch.manual_seed(9)
    config = GPT2Config(
        vocab_size=words, n_positions=64, n_embd=192, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    lines = torch.randint(1, words, (2000, start))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        tokens = write_on(model, lines[torch.randint(len(lines), (batch,))], new)
        reward = rhymes(tokens, start)
        edge = (reward - reward.mean()) / (reward.std() + 1e-4)
        loss = -(edge.unsqueeze(1) * scores_of(model, tokens, start)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
