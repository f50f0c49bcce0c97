"""A torchx component: a file that ``torchx run`` hands to Kubernetes, Ray, AWS Batch, SLURM or this machine.

Source: pytorch.org/torchx 0.7, specs (``AppDef``, ``Role``, macros ``replica_id`` and ``rank0_env``).
"""

from emberward.manifests._job import ADDRESS, HEAD, HOST, NODE_RANK, TrainingJob, node_script

_FILE = '''"""{typed}

torchx run --scheduler SCHEDULER FILE:train
"""

import torchx.specs as specs

SCRIPT = {script!r}


def train(image: str = {image!r}) -> specs.AppDef:
    """Trains {name} on {num_nodes} nodes with {ranks} ranks each.

    Args:
        image: what each node runs
    """
    node_rank, head = specs.macros.replica_id, "$${{" + specs.macros.rank0_env + ":=127.0.0.1}}"
    names = "{node_rank}=" + node_rank + " {head}=" + head + " {host}=$$(hostname)-" + node_rank
    names += " {address}=$$(hostname -i | cut -d ' ' -f 1)\\n"
    node = specs.Role(
        name="train",
        image=image,
        entrypoint="sh",
        args=["-c", names + SCRIPT],
        num_replicas={num_nodes},
        max_retries={restarts},
        retry_policy=specs.RetryPolicy.APPLICATION,
        resource=specs.Resource(cpu={cpu}, gpu={gpu}, memMB={memory}),
        port_map={{"rendezvous": {port}}},
        mounts=[specs.BindMount(src_path={shared!r}, dst_path={shared!r}, read_only=False)],
    )
    return specs.AppDef(name={label!r}, roles=[node])
'''


def torchx_component(job: TrainingJob) -> str:
    """Python for ``torchx run FILE:train``. `job.shared` must be the same path on every node and in the image."""
    return _FILE.format(
        typed=job.typed,
        # torchx fills in what follows one $, and leaves $$ to the shell as $.
        script=node_script(job).replace("$", "$$"),
        image=job.image,
        name=job.name,
        label=job.label,
        num_nodes=job.num_nodes,
        ranks=job.ranks_per_node,
        restarts=job.restarts,
        cpu=job.cpus_per_node or job.ranks_per_node,
        gpu=job.gpus_per_node or 0,
        memory=-1 if job.memory_gib is None else 1024 * job.memory_gib,
        port=job.port,
        shared=str(job.shared),
        node_rank=NODE_RANK,
        head=HEAD,
        host=HOST,
        address=ADDRESS,
    )
