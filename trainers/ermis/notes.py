"""What the records of Ermis & Cemgil show of the paper's claims, below each table."""

from trainers.ermis import published
from trainers.report.claims import Claim, below_text, claim_texts

# Ends of the names of rows: claimed by zCDP, with a guarantee, and with other features.
_KINDS = ("-zcdp", "", "-random_features", "-public_features", "-papers_settings")


def _pairs(first, second, kinds=_KINDS):
    return tuple(
        (f"{dataset}-{first}{kind}", f"{dataset}-{second}{kind}")
        for dataset in published.DATASETS
        for kind in kinds
    )


TABLE1 = (
    Claim(
        "dropout improves the accuracy, especially when the privacy budget is low (dpvd against "
        "svi)",
        _pairs("dpvd", "svi"),
    ),
    Claim(
        "variational dropout outperforms Abadi et al., especially when the privacy budget is low "
        "(dpvd against dpsgd)",
        _pairs("dpvd", "dpsgd", _KINDS[1:]),
    ),
    Claim(
        "composition by zCDP gives more accurate results at a comparable level of privacy (two "
        "claims of one epsilon, of which the runs spend different ones)",
        _pairs("dpvd-zcdp", "dpvd-ac", ("",)),
    ),
)
SETTINGS = (
    Claim(
        "dropout improves the accuracy (noise that multiplies inputs, against none)",
        tuple((f"digits-{name}", "digits-dpsgd") for name in ("dropout", "gaussian_dropout")),
    ),
    Claim(
        "Gaussian dropout works as well as binary dropout, or better",
        (("digits-gaussian_dropout", "digits-dropout"),),
        "level",
    ),
    Claim(
        "other deltas change little, less than 0.1 points",
        tuple((f"digits-dpvd-delta_{delta:g}", "digits-dpvd") for delta in (1e-2, 1e-3, 1e-4)),
        "level",
    ),
    Claim(
        "the divergence counts in full (against a weight of 0.02, which is ours)",
        (("digits-dpvd-kl_weight_1", "digits-dpvd"),),
    ),
    Claim(
        "alpha may exceed 1, the bound of Kingma et al. (the bound against none)",
        (("digits-dpvd-max_alpha_1", "digits-dpvd"),),
        "level",
    ),
)


def _of_table1(records):
    return [*claim_texts(records, TABLE1), below_text(records)]


def _of_settings(records):
    return [
        "Rows without a figure of the paper are not in its table.",
        *claim_texts(records, SETTINGS),
    ]


NOTES = {"ermis_table1": _of_table1, "ermis_settings": _of_settings}
