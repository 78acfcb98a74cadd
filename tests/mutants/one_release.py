"""Faults in the one release of sums: its bound, its noise, its persons, its ledger."""

from tests.mutants.mutant import fault, tests_in

_PRODUCTS = "tfdpnorm/least_squares/products.py"
_RELEASE = "tfdpnorm/least_squares/release.py"
_of_products = "tests/least_squares/test_products.py"
_of_release = "tests/least_squares/test_release.py"
_bound = tests_in(_of_products, "test_one_row_of_any_size_moves_the_sum_by_at_most_one")
_noise = tests_in(_of_release, "test_noise_has_its_deviation_lies_on_the_grid_and_is_new")
_persons = (f"{_of_products}::TestPersons",)
_ledger = (f"{_of_release}::TestLedger",)

MUTANTS = (
    fault(
        "release-without-clip",
        _PRODUCTS,
        "longer = np.maximum(np.where(finite, norms, norm), norm)",
        "longer = np.full(len(rows), norm)",
        "A long row moves the sum by as much as it likes.",
        _bound,
    ),
    fault(
        "release-clips-the-largest-number",
        _PRODUCTS,
        "norms = np.linalg.norm(rows, axis=1)",
        "norms = np.abs(rows).max(axis=1)",
        "A row of d equal numbers is sqrt(d) long.",
        _bound,
    ),
    fault(
        "release-of-infinite-rows",
        _PRODUCTS,
        "finite = np.isfinite(norms)",
        "finite = np.isfinite(norms) | True",
        "A row that is not finite makes the whole release so, and shows that it is there.",
        _bound,
    ),
    fault(
        "release-counts-half-of-the-gram-matrix",
        _PRODUCTS,
        "self._double = np.where(self._upper[0] == self._upper[1], 1.0, math.sqrt(2))",
        "self._double = np.where(self._upper[0] == self._upper[1], 1.0, 2.0)",
        "Numbers off the diagonal move the sum by more than the noise hides.",
        _bound,
    ),
    fault(
        "release-gram-share-without-root",
        _PRODUCTS,
        "self._of_cross = math.sqrt(1 - gram_share) / coding.bound",
        "self._of_cross = 1.0 / coding.bound",
        "Both parts take the whole budget.",
        _bound,
    ),
    fault(
        "release-of-long-targets",
        _PRODUCTS,
        "return clipped(np.reshape(labels, (len(labels), self.outputs)), self.bound, 1.0)",
        "return clipped(np.reshape(labels, (len(labels), self.outputs)), self.bound, 2.0)",
        "Targets are longer or shorter than what the bound counts on.",
        tests_in(_of_products, "test_targets_are_clipped_to_their_bound"),
    ),
    fault(
        "release-of-labels-out-of-range",
        _PRODUCTS,
        "valid = (labels >= 0) & (labels < self.num_classes)",
        "valid = labels < self.num_classes",
        "A label out of range counts as another class.",
        tests_in(_of_products, "test_labels_out_of_range_add_nothing"),
    ),
    fault(
        "release-bound-of-classes",
        _PRODUCTS,
        "return cls(num_classes, num_classes, math.sqrt(1 - 1 / num_classes))",
        "return cls(num_classes, num_classes, 1 - 1 / num_classes)",
        "Targets of classes are longer than their bound.",
        _bound,
    ),
    fault(
        "release-persons-add-sums",
        _PRODUCTS,
        "share = np.repeat(1 / np.minimum(have, persons.most), have)",
        "share = np.ones(count)",
        "Who has many rows moves the sum by many times the bound.",
        _persons,
    ),
    fault(
        "release-persons-with-all-rows",
        _PRODUCTS,
        "np.where(place < persons.most, share, 0.0)",
        "share",
        "Rows beyond k count as well, and a person's weights add up to more than 1.",
        _persons,
    ),
    fault(
        "release-counts-rows-for-persons",
        _PRODUCTS,
        "return persons.count, weights",
        "return count, weights",
        "N is the number of rows, which a person changes by many.",
        _persons,
    ),
    fault(
        "release-rounding-left-out",
        _PRODUCTS,
        "return of_row + 2 * (num_examples + 1) * of_sum",
        "return of_row",
        "The noise does not pay for the rounding of the sum.",
        tests_in(_of_products, "test_rounding_bounds_what_a_row_can_do_to_the_computed_sum"),
    ),
    fault(
        "release-noise-of-half",
        _RELEASE,
        "stddev = plan.noise_multiplier * SENSITIVITY * (1 + products.rounding(count))",
        "stddev = 0.5 * plan.noise_multiplier * SENSITIVITY * (1 + products.rounding(count))",
        "Noise of half the deviation that epsilon stands for.",
        _noise,
    ),
    fault(
        "release-without-noise",
        _RELEASE,
        "    if not stddev:\n        return total\n",
        "    if stddev:\n        return total\n",
        "The sums are released as they are.",
        _noise,
    ),
    fault(
        "release-of-repeated-noise",
        _RELEASE,
        "noise = GaussianNoise(insecure_seed, noise_generator)",
        "noise = GaussianNoise(insecure_seed or 0)",
        "Two releases with the same noise give their difference away.",
        _noise,
    ),
    fault(
        "release-after-the-noise-in-the-ledger",
        _RELEASE,
        "    ledger.record(Updates(1))  # Spent from here on, whatever becomes of the noise.\n",
        "",
        "The release is not counted.",
        _ledger,
    ),
    fault(
        "release-forgets-what-was-before",
        _RELEASE,
        "        after=after,\n        most_per_person",
        "        after=None,\n        most_per_person",
        "A second release of the same examples costs nothing on top.",
        _ledger,
    ),
    fault(
        "release-sampled",
        _RELEASE,
        "        expected_batch_size=count,\n",
        "        expected_batch_size=max(1, count // 2),\n",
        "Epsilon counts on a sampling that does not happen.",
        tests_in(_of_release, "test_epsilon_is_that_of_one_gaussian_mechanism"),
    ),
    fault(
        "releases-of-any-delta",
        _RELEASE,
        "    check_plan(ledger)\n",
        "",
        "A budget is spent on a release that can have no guarantee.",
        _ledger,
    ),
    fault(
        "release-with-a-known-seed",
        _RELEASE,
        '    return ("the noise comes from a seed that is not secret",)',
        "    return ()",
        "A guarantee is stated for noise that anybody can draw again.",
        tests_in(_of_release, "test_a_seed_and_no_noise_have_no_guarantee"),
    ),
    fault(
        "release-whitened-by-private-rows",
        "trainers/runs/least_squares.py",
        "front = whitened(features, data.public_x, ",
        "front = whitened(features, data.train_x, ",
        "What is before the released layer is computed from all private rows without noise.",
        tests_in("tests/trainers/ours/test_one_release.py", "test_only_public_rows_whiten"),
    ),
    fault(
        "release-forgets-what-imported-weights-have-seen",
        "trainers/runs/least_squares.py",
        "        for known in (*reasons, *data.foreign):\n",
        "        for known in ():\n",
        "The statement does not say that features were learnt from private data.",
        tests_in(
            "tests/trainers/ours/test_one_release.py",
            "test_known_exceptions_to_the_guarantee_are_stated",
        ),
    ),
)
