import torch


def tickets(count=4000, words=2500, length=60, teams=10):
    """What people wrote to a help desk, and which team it is for."""
    team = torch.randint(0, teams, (count,))
    own = (team.view(-1, 1) * words // teams + torch.randint(0, words // teams, (count, length))) % words
    common = torch.randint(0, words, (count, length))
    return torch.where(torch.rand(count, length) < 0.2, own, common), team
