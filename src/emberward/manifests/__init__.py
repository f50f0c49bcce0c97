"""What hands a recipe to a cluster's own scheduler: a Kubernetes Job, a torchx component. Text for people; no torch.

Each node runs ``emberward train`` through torchrun's rendezvous, as on several hosts; the nodes tell each other what
they see through a folder on the file system that all share, which also holds the run.
"""

from emberward.manifests._job import TrainingJob, node_script
from emberward.manifests._kubernetes import kubernetes_manifest
from emberward.manifests._torchx import torchx_component

__all__ = ["TrainingJob", "kubernetes_manifest", "node_script", "torchx_component"]
