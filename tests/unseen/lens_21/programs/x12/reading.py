import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def reviews(count=2000, length=24, words=500):
    """Made-up reviews: the good ones use other words more often."""
    good = torch.randint(0, 2, (count,))
    tokens = torch.randint(1, words // 2, (count, length)) * 2 - (torch.rand(count, length) < 0.6) * good.unsqueeze(1)
    return torch.utils.data.TensorDataset(tokens.clamp(min=1), good)


def reader(layers=8):
    return BertForSequenceClassification(BertConfig(
        vocab_size=500, hidden_size=96, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=192,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))


def depth(name, layers):
    if "encoder.layer." in name:
        return int(name.split("encoder.layer.")[1].split(".")[0]) + 1
    return 0 if "embeddings" in name else layers + 1


def layerwise(model, steps, lr=1e-3, decay=0.8, weight_decay=0.01):
    """Lower layers learn more slowly; biases and norms do not decay. Optimizers with their schedules."""
    layers, pairs = model.config.num_hidden_layers, []
    for name, p in model.named_parameters():
        optimizer = torch.optim.AdamW(  #: LINE
            [p], lr * decay ** (layers + 1 - depth(name, layers)), weight_decay=0.0 if p.ndim < 2 else weight_decay, fused=True,
        )
        pairs.append((optimizer, get_linear_schedule_with_warmup(optimizer, steps // 10, steps)))
    return pairs
