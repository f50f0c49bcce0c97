"""A Kubernetes Job with one pod a node, and the service under whose name the pods find each other.

[Note: pods]
An Indexed Job gives each pod its number (``JOB_COMPLETION_INDEX``) and, with a headless service as its subdomain, a
stable name: node 0 is ``JOB-0.SERVICE``. A rank that dies ends torchrun on every node, and so every pod; the Job
replaces them, and the ranks go on from the last save. A pod that the cluster evicts is no failure
(``DisruptionTarget``); exit code 2 is a mistake that each further pod would meet again, and ends the Job. Sources:
kubernetes.io/docs, "Indexed Job for Parallel Processing", "Job with Pod-to-Pod Communication", "Pod failure policy"
(Kubernetes 1.31).
"""

from typing import Any

import yaml

from emberward.manifests._job import ADDRESS, HEAD, HOST, NODE_RANK, TrainingJob, node_script

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and nothing by reference, so that people can read it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def kubernetes_manifest(job: TrainingJob, *, claim: str) -> str:
    """YAML for ``kubectl apply -f``. `claim`: the volume claim that becomes `job.shared` in each pod."""
    labels = {"app.kubernetes.io/name": "emberward", "app.kubernetes.io/instance": job.label}
    asked: dict[str, Any] = {}
    if job.gpus_per_node is not None:
        asked["nvidia.com/gpu"] = job.gpus_per_node
    if job.cpus_per_node is not None:
        asked["cpu"] = job.cpus_per_node
    if job.memory_gib is not None:
        asked["memory"] = f"{job.memory_gib}Gi"
    container = {
        "name": "train",
        "image": job.image,
        "command": ["/bin/sh", "-c", node_script(job)],
        "workingDir": str(job.shared),
        "env": [
            {"name": NODE_RANK, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
            {"name": HEAD, "value": f"{job.label}-0.{job.label}"},
            # The machine's name, not the pod's: a machine that is left out stays so under its next pod.
            {"name": HOST, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"containerPort": job.port}],
        **({"resources": {"requests": asked, "limits": asked}} if asked else {}),
        "volumeMounts": [{"name": "shared", "mountPath": str(job.shared)}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    pod = {
        "subdomain": job.label,
        "restartPolicy": "Never",
        # The ranks save, then the supervisor ends what is left.
        "terminationGracePeriodSeconds": job.grace_s + 30,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        ]}},
        "containers": [container],
        "volumes": [
            {"name": "shared", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }  # fmt: skip
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": job.label, "labels": labels},
        # Names are known before the pods are ready: the ranks look for node 0 at once.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels,
                 "ports": [{"name": "rendezvous", "port": job.port}]},
    }  # fmt: skip
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.label, "labels": labels},
        "spec": {
            "completions": job.num_nodes,
            "parallelism": job.num_nodes,
            "completionMode": "Indexed",
            # Each failure ends all pods.
            "backoffLimit": job.restarts * job.num_nodes,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {"containerName": "train", "operator": "In", "values": [2]}},
            ]},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }  # fmt: skip
    body = yaml.dump_all([service, batch], Dumper=_Dumper, sort_keys=False, width=10_000)
    return f"# {job.typed}\n{body}"
