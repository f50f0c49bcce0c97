import torch


@torch.no_grad()
def write_on(model, tokens, new):
    """Writes each line on, word by word."""
    past, word = None, tokens
    for _ in range(new):
        out = model(word, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = out.past_key_values
        word = torch.multinomial(out.logits[:, -1].softmax(-1), 1)
        tokens = torch.cat([tokens, word], 1)
    return tokens


def rhymes(tokens, start, endings=16):
    """How often a new word has the ending of the word that the line began with."""
    return (tokens[:, start:] % endings == tokens[:, :1] % endings).float().mean(1)
