import torch
from transformers import GPT2Config, GPT2LMHeadModel


def ballads(count=50000, signs=90):
    return (torch.arange(count) * 11 % 61 + torch.randint(0, 5, (count,))) % signs


def model(signs=90, length=32):
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=signs, n_positions=length, n_embd=96, n_layer=4, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False,
    ))


def roughness(model):
    """Places next to each other in a line should mean nearly the same: texts are few."""
    total = 0.0
    for name, p in model.named_parameters():
        if name.endswith("wpe.weight"):
            total = total + (p[1:] - p[:-1]).norm(2) ** 2
    return total


def optimizer(model, rate=2e-3, decay=0.05):
    """Norms and biases do not decay."""
    params = list(model.parameters())
    return torch.optim.AdamW([
        {"params": [p for p in params if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0},
    ], lr=rate, fused=True)
