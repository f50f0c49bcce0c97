"""Teams of unequal size and unequal numbers of rounds; each has helpers in child processes."""
import subprocess
import sys
import time

import torch
import torch.distributed as dist

HELPER = "import sys, time; time.sleep(0.3); n = int(sys.argv[1]); sys.exit(n % 5 == 3)"


def helper(n):
    """A child that now and then ends with code 1; then it is started again with another seed."""
    for seed in range(n, n + 3):
        child = subprocess.run([sys.executable, "-S", "-c", HELPER, str(seed)], timeout=60)
        if child.returncode == 0:
            return seed
        print(f"helper {seed} failed with code {child.returncode}, started again", flush=True)
    raise RuntimeError("no helper")


def play(team, rounds, rank):
    state = torch.full((6,), float(rank))
    for i in range(rounds):
        seed = helper(i) if i % 4 == 3 else i
        state = state * 0.9 + torch.randn(6, generator=torch.Generator().manual_seed(seed))
        dist.all_reduce(state, group=team)
        state /= dist.get_world_size(team)
        if i % 5 == 0:
            dist.broadcast(state, src=dist.get_global_rank(team, 0), group=team)
        time.sleep(0.1)
    return state


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    small, large = dist.new_group([0, 3]), dist.new_group([1, 2, 4])
    for season in range(3):
        if rank in (0, 3):
            state = play(small, 10 + season, rank)
        else:
            state = play(large, 24, rank)
        table = [None] * dist.get_world_size()
        dist.all_gather_object(table, round(state.sum().item(), 3))
        if rank == 0:
            print(f"season {season}: {table}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
