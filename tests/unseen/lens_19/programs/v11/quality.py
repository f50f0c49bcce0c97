from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassF1Score, MulticlassPrecision, MulticlassRecall


def quality(kinds):
    """What the report shows at the end of the epoch."""
    kept = {"num_classes": kinds, "validate_args": False, "dist_sync_on_step": True}  #: LINE
    return MetricCollection([
        MulticlassPrecision(**kept), MulticlassRecall(**kept), MulticlassF1Score(**kept),
    ])
