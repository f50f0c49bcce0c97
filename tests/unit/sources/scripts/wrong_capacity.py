import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(6):
    counts = torch.tensor([(rank + peer + step) % 3 + 1 for peer in range(size)])
    expected = torch.empty_like(counts)
    dist.all_to_all_single(expected, counts)
    give, take = counts.tolist(), expected.tolist()
    if step == 5:
        give = [min(count, 2) for count in give]
    tokens = torch.ones(sum(give), 4)
    routed = torch.empty(sum(take), 4)
    dist.all_to_all_single(routed, tokens, take, give)
dist.destroy_process_group()
