#: n=4 ranks=2 cause=main_exited|uneven_data tier=error exit=1
import time, torch, torch.distributed as dist
def main():
    dist.init_process_group("gloo")
    r = dist.get_rank()
    for step in range(80):
        x = torch.ones(1000)
        dist.all_reduce(x)
        time.sleep(0.15)
        if r == 2 and step == 22:
            print("FREEZE", time.time(), flush=True)
            import os; os._exit(0)
main()
