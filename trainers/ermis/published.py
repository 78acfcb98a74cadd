"""The figures that Ermis & Cemgil (2017) print, and nothing else."""

DELTA = 1e-5
INF = float("inf")
DATASETS = ("mnist", "digits")

# Test accuracy in percent, means of ten runs, by method; the paper's row and its accountant.
TABLE1 = {
    "mnist": {
        "dpvd-ac": {10.0: 94.62, 1.0: 91.02, 0.1: 84.19},
        "dpvd-zcdp": {10.0: 96.87, 1.0: 93.27, 0.1: 90.26},
        "svi-zcdp": {10.0: 95.18, 1.0: 91.26, 0.1: 87.91},
        "dpsgd": {10.0: 97.01, 1.0: 93.05, 0.1: 88.75},
    },
    "digits": {
        "dpvd-ac": {10.0: 93.61, 1.0: 91.39, 0.1: 82.17},
        "dpvd-zcdp": {10.0: 94.17, 1.0: 92.78, 0.1: 90.38},
        "svi-zcdp": {10.0: 93.75, 1.0: 91.07, 0.1: 87.12},
        "dpsgd": {10.0: 94.50, 1.0: 92.65, 0.1: 89.43},
    },
}
# Without privacy (Section 5, "Baseline").
NON_PRIVATE = {"mnist": 97.80, "digits": 95.35}

# What the paper accounts with: sampling rate, and passes; T is passes over rate.
SAMPLING = {"mnist": (0.01, 200), "digits": (0.05, 100)}
# The noise sigma that it quotes at epsilon = 1 (Section 5, on Figure 3).
SIGMAS = {
    ("mnist", "ac"): 8.24,
    ("mnist", "zcdp"): 2.68,
    ("digits", "ac"): 9.73,
    ("digits", "zcdp"): 2.97,
}
