"""The form that the gradients of convolutions take."""

import pytest

from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum

FORMS = ("gram", "patches", "places", "row by row")


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """Makes every convolution take one form, whatever it costs: of several calls no Gram matrix."""
    taken = {"_gram_is_cheaper": "gram", "_by_patches": "patches", "_by_places": "places"}
    for name, of in taken.items():
        monkeypatch.setattr(
            ConvolutionSum,
            name,
            lambda self, of=of: request.param == of and (of != "gram" or len(self._calls) == 1),
        )
    return request.param
