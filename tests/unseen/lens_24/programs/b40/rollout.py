import torch


@torch.no_grad()
def write_on(model, tokens, new):
    """Writes each line on, word by word."""
    for _ in range(new):
        out = model(tokens, use_cache=False, logits_to_keep=1)  #: LINE
        word = torch.multinomial(out.logits[:, -1].softmax(-1), 1)
        tokens = torch.cat([tokens, word], 1)
    return tokens


def rhymes(tokens, start, endings=16):
    """How often a new word has the ending of the word that the line began with."""
    return (tokens[:, start:] % endings == tokens[:, :1] % endings).float().mean(1)
