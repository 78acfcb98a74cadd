"""Every metric of Keras 2.15 with targets that it is for: (name, function, kind of targets)."""

from tensorflow import keras

M = keras.metrics

_OF_TWO_CLASSES = {
    name: lambda name=name: getattr(M, name)()
    for name in (
        "AUC",
        "BinaryAccuracy",
        "BinaryCrossentropy",
        "FalseNegatives",
        "FalsePositives",
        "Hinge",
        "Precision",
        "Recall",
        "SquaredHinge",
        "TrueNegatives",
        "TruePositives",
    )
} | {
    "BinaryIoU": lambda: M.BinaryIoU([0, 1], threshold=0.5),
    "PrecisionAtRecall": lambda: M.PrecisionAtRecall(0.5, num_thresholds=20),
    "RecallAtPrecision": lambda: M.RecallAtPrecision(0.5, num_thresholds=20),
    "SensitivityAtSpecificity": lambda: M.SensitivityAtSpecificity(0.5, num_thresholds=20),
    "SpecificityAtSensitivity": lambda: M.SpecificityAtSensitivity(0.5, num_thresholds=20),
}
_OF_CLASSES = {
    name: lambda name=name: getattr(M, name)()
    for name in (
        "CategoricalAccuracy",
        "CategoricalCrossentropy",
        "CategoricalHinge",
        "F1Score",
        "FBetaScore",
        "KLDivergence",
        "Poisson",
        "TopKCategoricalAccuracy",
    )
} | {"OneHotIoU": lambda: M.OneHotIoU(3, [0, 1]), "OneHotMeanIoU": lambda: M.OneHotMeanIoU(3)}
_OF_CLASS_NUMBERS = {
    "SparseCategoricalAccuracy": M.SparseCategoricalAccuracy,
    "SparseCategoricalCrossentropy": M.SparseCategoricalCrossentropy,
    "SparseTopKCategoricalAccuracy": lambda: M.SparseTopKCategoricalAccuracy(2),
    "IoU": lambda: M.IoU(3, [0, 1], sparse_y_pred=False),
    "MeanIoU": lambda: M.MeanIoU(3, sparse_y_pred=False),
}
_OF_NUMBERS = {
    name: lambda name=name: getattr(M, name)()
    for name in (
        "Accuracy",
        "CosineSimilarity",
        "LogCoshError",
        "MeanAbsoluteError",
        "MeanAbsolutePercentageError",
        "MeanSquaredError",
        "MeanSquaredLogarithmicError",
        "R2Score",
        "RootMeanSquaredError",
    )
} | {"MeanRelativeError": lambda: M.MeanRelativeError([0.5])}

# Not of targets and predictions, so that `compile` of Keras cannot take them either.
NOT_OF_TARGETS = {"Mean", "MeanMetricWrapper", "MeanTensor", "Metric", "Sum"}

METRICS = [
    (name, make, kind)
    for kind, group in (
        ("binary", _OF_TWO_CLASSES),
        ("one_hot", _OF_CLASSES),
        ("sparse", _OF_CLASS_NUMBERS),
        ("numbers", _OF_NUMBERS),
    )
    for name, make in group.items()
]
