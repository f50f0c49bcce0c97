import torch
import torch.distributed as dist

STATIONS = ["Brest", "Cuxhaven", "Delfzijl", "Dover", "Esbjerg", "Galway", "Heysham", "Ijmuiden", "Kiel", "Leith",
            "Lerwick", "Newlyn", "Ostend", "Porto", "Sheerness", "Stavanger", "Tregde", "Vigo", "Vlissingen", "Wick"]


def per_station(guess, truth):
    error = (guess - truth).abs()
    return {name: error[:, k].mean() for k, name in enumerate(STATIONS)}


def averaged(metrics):
    world = dist.get_world_size()
    out = {}
    for name, value in metrics.items():
        value = value.clone()
        dist.all_reduce(value)
        out[name] = value / world
    return out
