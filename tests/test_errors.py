"""Errors and warnings that concern privacy, as callers catch them."""

import subprocess
import sys

import pytest
import tensorflow as tf

import tfdpnorm
from tests.each import each
from tfdpnorm.gradients.refusals import (
    is_of_coupling,
    is_of_engine,
    refusal_of_coupling,
    refusal_of_engine,
)
from tfdpnorm.keras_compat.graphs import cause_of


def test_both_are_at_the_top_without_tensorflow():
    code = (
        "import sys, tfdpnorm\n"
        "assert issubclass(tfdpnorm.PrivacyError, ValueError)\n"
        "assert issubclass(tfdpnorm.PrivacyWarning, UserWarning)\n"
        "print('tensorflow' in sys.modules)"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120)
    assert loaded.strip() == "False"


@each(
    "error, recognised",
    [
        (tfdpnorm.PrivacyError("Expected this, got that."), lambda error: True),
        (refusal_of_coupling("Expected rows apart, got a sum."), is_of_coupling),
        (refusal_of_engine("Expected a rule, got none", kind=tfdpnorm.PrivacyError), is_of_engine),
    ],
)
def test_autograph_leaves_privacy_errors_what_they_are(error, recognised):
    @tf.function
    def traced(x):
        if tf.reduce_sum(x) > 0:  # converted by AutoGraph
            x = x + 1
        if x is not None:
            raise error
        return x

    with pytest.raises(tfdpnorm.PrivacyError) as caught:
        traced(tf.ones(2))
    cause = cause_of(caught.value)
    assert str(cause) == str(error) and recognised(cause)
