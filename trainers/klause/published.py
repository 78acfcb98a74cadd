"""The figures that Klause et al. (2022) print, and nothing else.

Accuracies in percent, medians of three runs, by (data set, network, ScaleNorm) and epsilon.
"""

DELTA = 1e-5
INF = float("inf")

TABLE1 = {
    ("cifar10", "resnet9", True): {2.89: 65.6, 7.42: 71.8, 9.88: 73.0},
    ("cifar10", "resnet9", False): {2.89: 65.0, 7.42: 71.4, 9.88: 72.4},
    ("imagenette", "resnet9", True): {2.89: 56.6, 7.42: 64.8, 9.88: 67.1},
    ("imagenette", "resnet9", False): {2.89: 55.5, 7.42: 63.8, 9.88: 65.0},
    ("tiny_imagenet", "resnet9", True): {5.0: 15.2, 10.0: 19.4, 70.0: 25.8},
    ("tiny_imagenet", "resnet9", False): {5.0: 14.2, 10.0: 18.7, 70.0: 24.7},
}
# Whether the label is among the five largest logits.
TABLE1_TOP5 = {
    ("tiny_imagenet", "resnet9", True): {5.0: 36.0, 10.0: 41.8, 70.0: 50.8},
    ("tiny_imagenet", "resnet9", False): {5.0: 34.4, 10.0: 40.5, 70.0: 48.3},
}
# The figures of ResNet-9 are those of Table 1.
TABLE2 = {
    ("cifar10", "wrn_16_4", True): {8.0: 82.5},
    ("cifar10", "wrn_16_4", False): {8.0: 81.25},
    ("cifar10", "resnet9", True): {7.42: 71.8},
    ("cifar10", "resnet9", False): {7.42: 71.4},
}
# Its training times in minutes. ResNet-9 takes "approximately 20 minutes on a single NVidia Quadro
# RTX 8000 GPU", WRN-16-4 "over 16 hours on a dual-GPU system".
MINUTES_OF_TABLE2 = {
    ("cifar10", "wrn_16_4"): "963 on two GPUs",
    ("cifar10", "resnet9"): "22 on one Quadro RTX 8000",
}
TABLE3 = {
    ("imagenette", "resnet50", True): {7.42: 44.2},
    ("imagenette", "resnet50", False): {7.42: 43.0},
}
# The best of three runs in place of the median; of Tiny ImageNet the top-5 accuracy.
TABLE4 = {
    ("cifar10", "resnet9", True): {7.42: 72.4},
    ("cifar10", "resnet9", False): {7.42: 71.5},
    ("imagenette", "resnet9", True): {7.42: 66.1},
    ("imagenette", "resnet9", False): {7.42: 64.4},
    ("tiny_imagenet", "resnet9", True): {10.0: 42.8},
    ("tiny_imagenet", "resnet9", False): {10.0: 41.2},
}
# Section 3.1, of the Hessian at the end of training: with and without ScaleNorm.
HESSIAN_TRACE = (6637.3, 9045.7)
LARGEST_EIGENVALUE = (2654.2, 3920.4)
NEGATIVE_EIGENVALUES = (115, 119)
CONDITION_NUMBER = (2.1e-3, 2.3e-3)
# Without privacy and with batch normalisation.
APPENDIX_B = {
    ("cifar10", "resnet9", True): {INF: 89.8},
    ("cifar10", "resnet9", False): {INF: 89.3},
}
