"""The figures that Davody et al. (2020) print, and nothing else."""

INF = float("inf")
NEVER = "no convergence"
NOT_FEASIBLE = "not feasible"

# Test accuracy in percent with noise in the weights, by (model, norm, norm_placement) and standard
# deviation.
_TABLE2 = {
    ("lenet_300_100", "none", "all"): {0: 98.20, 0.01: 97.70, 0.1: 96.98, 1: NEVER, 2: NEVER},
    ("lenet_300_100", "batch", "all"): {0: 98.20, 0.01: 98.10, 0.1: 98.07, 1: 98.07, 2: 98.13},
    ("lenet_300_100", "layer", "all"): {0: 98.04, 0.01: 98.00, 0.1: 98.08, 1: 98.04, 2: 98.03},
    ("lenet5", "none", "all"): {0: 99.20, 0.01: 98.94, 0.1: 98.40, 1: NEVER, 2: NEVER},
    ("lenet5", "batch", "all"): {0: 99.20, 0.01: 99.21, 0.1: 99.18, 1: 99.24, 2: 99.25},
    ("lenet5", "layer", "all"): {0: 99.16, 0.01: 99.14, 0.1: 99.13, 1: 99.21, 2: 99.19},
}
# The text (Section 2) has one level more: plain networks do not converge at it. It gives the
# others no figure.
TABLE2 = {
    (model, norm, placement): row | {0.3: NEVER if norm == "none" else None}
    for (model, norm, placement), row in _TABLE2.items()
}
TABLE3 = {
    ("resnet18", "batch", "hidden"): {0: 93.50, 0.01: 89.05, 0.1: 89.41, 1: 86.76, 2: 87.83},
    ("resnet18", "batch", "mod"): {0: 93.60, 0.01: 88.65, 0.1: 88.16, 1: 85.46, 2: 83.95},
    ("resnet18", "batch", "all"): {0: 93.55, 0.01: 93.59, 0.1: 93.46, 1: 92.72, 2: 92.10},
    ("vgg", "batch", "hidden"): {0: 91.21, 0.01: 88.89, 0.1: 84.59, 1: 63.12, 2: NEVER},
    ("vgg", "batch", "mod"): {0: 91.18, 0.01: 88.87, 0.1: 82.58, 1: 22.58, 2: NEVER},
    ("vgg", "batch", "all"): {0: 91.75, 0.01: 91.69, 0.1: 91.56, 1: 90.95, 2: 90.35},
}
# Standard errors of Table 2, of ten runs; and of Table 3, whose number of runs is not stated. By
# (model, norm, norm_placement), for the columns 0, 0.01, 0.1, 1 and 2.
_COLUMNS = (0, 0.01, 0.1, 1, 2)
_ERRORS2 = {
    ("lenet_300_100", "none", "all"): (0.07, 0.30, 0.12, None, None),
    ("lenet_300_100", "batch", "all"): (0.10, 0.10, 0.11, 0.12, 0.08),
    ("lenet_300_100", "layer", "all"): (0.16, 0.10, 0.14, 0.09, 0.17),
    ("lenet5", "none", "all"): (0.02, 0.07, 0.03, None, None),
    ("lenet5", "batch", "all"): (0.08, 0.05, 0.06, 0.04, 0.07),
    ("lenet5", "layer", "all"): (0.08, 0.06, 0.07, 0.05, 0.07),
}
_ERRORS3 = {
    ("resnet18", "batch", "hidden"): (0.04, 0.60, 0.67, 1.30, 0.87),
    ("resnet18", "batch", "mod"): (0.18, 1.22, 1.22, 1.21, 2.51),
    ("resnet18", "batch", "all"): (0.04, 0.18, 0.24, 0.26, 0.28),
    ("vgg", "batch", "hidden"): (0.16, 0.56, 6.11, 8.21, None),
    ("vgg", "batch", "mod"): (0.20, 0.59, 6.91, 5.0, None),
    ("vgg", "batch", "all"): (0.22, 0.20, 0.24, 0.25, 0.14),
}
TABLE2_ERRORS, TABLE3_ERRORS = (
    {key: dict(zip(_COLUMNS, errors, strict=True)) for key, errors in table.items()}
    for table in (_ERRORS2, _ERRORS3)
)
TABLE4 = {
    ("bilstm", "none", "all"): {0: 89.34, 0.01: 89.57, 0.1: 89.01, 1: 66.32, 2: 24.76},
    ("bilstm", "layer", "all"): {0: 89.34, 0.01: 88.87, 0.1: 88.62, 1: 85.74, 2: 82.41},
}

# Test accuracy in percent under DP, by (model, norm) and epsilon; delta = 1e-5.
_TABLE5 = {
    "none": (99.20, 97.01, 96.34, 94.11, 91.10, 83.00, 78.96),
    "layer": (99.20, 97.35, 97.05, 96.68, 94.81, 87.45, 75.76),
    "public_batch": (99.20, 98.68, 98.18, 97.61, 96.83, 90.68, 88.15),
}
TABLE5 = {
    ("lenet5", norm): dict(zip((INF, 7, 3, 1, 0.5, 0.1, 0.05), figures, strict=True))
    for norm, figures in _TABLE5.items()
}
TABLE6 = {
    ("tf_tutorial", "none"): {INF: 80.0, 8: 73.0, 4: 70.0, 2: 67.0},
    ("tf_tutorial", "layer"): {INF: 80.0, 8: 73.3, 4: 70.6, 2: 67.0},
    ("tf_tutorial", "public_batch"): {INF: 80.0, 8: 74.1, 4: 71.2, 2: 69.8},
    ("vgg", "public_batch"): {INF: 80.7, 8: 79.5, 4: 79.1, 2: 77.4},
}
# The text (Section 4) of VGG without batch normalisation: "not feasible", "extremely unstable".
PLAIN_VGG = dict.fromkeys((8, 4, 2), NOT_FEASIBLE)
TABLE7 = {
    ("bilstm", "none"): {INF: 88.47, 7: 83.86, 3: 80.00, 1: 81.14, 0.5: 77.88, 0.1: 37.49},
    ("bilstm", "layer"): {INF: 88.18, 7: 84.34, 3: 82.51, 1: 82.03, 0.5: 79.16, 0.1: 50.09},
}
DELTA = 1e-5
PUBLIC_ROWS = 128
