import torch
from torch import nn
from torch.nn import functional as F


class Tower(nn.Module):
    def __init__(self, features, width, out):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, out)
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Retriever(nn.Module):
    def __init__(self, features=128, width=640, out=96):
        super().__init__()
        self.query, self.document = Tower(features, width, out), Tower(features, width, out)

    def forward(self, queries, documents):
        return self.query(queries), self.document(documents)


class Catalogue:
    def __init__(self, documents=1600, queries=6000, features=128, groups=40, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.documents = torch.randn(documents, features, generator=g)
        self.answer = torch.randint(0, documents, (queries,), generator=g)
        self.queries = self.documents[self.answer] + 0.7 * torch.randn(queries, features, generator=g)
        group = torch.randint(0, groups, (documents,), generator=g).tolist()
        members = {}
        for number, key in enumerate(group):
            members.setdefault(key, []).append(number)
        self.rivals = [members[key][:12] for key in group]
