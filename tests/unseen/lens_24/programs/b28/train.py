import statistics
import time

import torch
from torch.nn import functional as F
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


def moves(count=2000, length=24, squares=128):
    """Openings of a board game, as numbers of squares."""
    return torch.randint(1, squares, (count, length))


@torch.no_grad()
def play(model, opening, plies):
    """Plays on from the opening; keys and values of what was played are kept."""
    cache, game, fresh = DynamicCache(config=model.config), [opening], opening
    for _ in range(plies):
        logits = model(fresh, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        fresh = torch.multinomial(logits.softmax(-1), 1)
        game.append(fresh)
    return torch.cat(game, 1)


def territory(game, start):
    """A point for each ply on a square near the one before."""
    ahead = game[:, start:] - game[:, start - 1:-1]
    return (ahead.abs() < 12).float().sum(1)


def main(steps=60, batch=10, plies=5, squares=128):
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=squares, hidden_size=192, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
    ))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    openings = moves(squares=squares)
    start = openings.shape[1]
    times = []
    for step in range(steps):
        began = time.perf_counter()
        game = play(model, openings[torch.randint(len(openings), (batch,))], plies)
        points = territory(game, start)
        logits = model(game[:, :-1], use_cache=False, logits_to_keep=plies).logits
        taken = -F.cross_entropy(logits.transpose(1, 2), game[:, start:], reduction="none").sum(1)
        loss = -((points - points.mean()) * taken).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
