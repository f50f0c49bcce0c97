import torch


def visits(count, items, users, past=12):
    """What somebody looked at in a shop, and whether the thing offered next was bought."""
    users_ = torch.randint(0, users, (count,))
    seen = (torch.rand(count, past) ** 3 * items).long()
    offered = (torch.rand(count) ** 2 * items).long()
    bought = ((seen % 17).float().mean(1) + (offered % 5) > 10).float()
    return torch.utils.data.TensorDataset(users_, seen, offered, bought)


def endless(data, size):
    while True:
        order = torch.randperm(len(data))
        for picked in order.split(size):
            if len(picked) == size:
                yield data[picked]
