def describe(model):
    """All that one wants to know of the gradients, one line for each tensor."""
    lines = []
    for name, p in model.named_parameters():
        g = p.grad
        lines.append(f"{name:28s} |g|={g.norm():.3e} |w|={p.norm():.3e} max={g.abs().max():.3e} "
                     f"zero={(g == 0).float().mean():.2%} first={g.flatten()[:12]}")
    return "\n".join(lines)
