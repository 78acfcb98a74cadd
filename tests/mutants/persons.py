"""Faults in training per person: who is drawn, how often, and what is clipped."""

from tests.mutants.mutant import fault, tests_in

_STEP = "tests/training/step/test_persons.py"
_DATA = "tests/data/test_persons.py"
_loop = tests_in(_STEP, "test_the_sum_is_that_of_a_loop_over_persons")
_refusals = f"{_STEP}::TestRefusals"

MUTANTS = (
    fault(
        "equal-examples-unsaid",
        "tfdpnorm/training/validation_data.py",
        "leaves, leaves)))) < examples.count:",
        "leaves, leaves)))) < 0:",
        "A record that is in the data four times is said to be protected as one example.",
        tests_in("tests/training/test_second_fit.py", "test_equal_examples_are_warned_of_once"),
    ),
    fault(
        "persons-mean-is-a-sum",
        "tfdpnorm/training/views.py",
        "tf.reduce_mean(_split(values, self.rows_per_example), axis=1)",
        "tf.reduce_sum(_split(values, self.rows_per_example), axis=1)",
        "Who has many rows is clipped, who has few is not heard.",
        tests_in(_STEP, "test_all_rows_of_a_person_take_part_where_they_fit"),
    ),
    fault(
        "missing-persons-are-one",
        "tfdpnorm/data/persons.py",
        "        _reject_missing(counts[is_missing].sum())\n",
        "",
        "The rows of all whose id is blank are protected as those of one person.",
        tests_in(_DATA, "test_missing_ids_are_rejected"),
    ),
    fault(
        "words-for-missing-persons",
        "tfdpnorm/data/persons.py",
        '    return _PUNCTUATION.sub("", text) in _MISSING\n',
        "    return text in _MISSING\n",
        "All whose id is N/A or ? are protected as one person.",
        tests_in(_DATA, "test_missing_ids_are_rejected"),
    ),
    fault(
        "numbers-for-missing-persons",
        "tfdpnorm/data/persons.py",
        "            missing = missing | {info.min or info.max}\n",
        "            pass\n",
        "All whose id became the limit of an integer type are protected as one person.",
        tests_in(_DATA, "test_numbers_that_missing_ids_become_are_rejected"),
    ),
    fault(
        "persons-clipped-by-row",
        "tfdpnorm/gradients/engines/book_keeping.py",
        "taps = Taps(model, variables, rows_per_example, broadcast, examples)",
        "taps = Taps(model, variables, 1, broadcast, examples)",
        "Each row of a person moves the sum by up to C.",
        _loop,
    ),
    fault(
        "person-in-two-slots",
        "tfdpnorm/data/poisson.py",
        "rows = rows_of_persons(rows, *index, most, bits)",
        "rows = np.repeat(rows_of_persons(rows, *index, most, bits), 2, axis=0)",
        "A person's rows are behind two clipped gradients, which move the sum by 2 C.",
        tests_in(_DATA, "test_a_person_is_drawn_with_their_own_rows"),
    ),
    fault(
        "persons-drawn-by-their-rows",
        "tfdpnorm/data/poisson.py",
        "            if index:\n",
        "            if index:\n"
        "                found = poisson_rows(no_row, sampling_rate, bits)\n"
        "                rows = np.unique(np.searchsorted(index[0], found, 'right') - 1)\n",
        "Who has many rows is in nearly every batch, and epsilon does not hold for them.",
        tests_in(_DATA, "test_number_of_drawn_persons_is_binomial"),
    ),
    fault(
        "sampling-rate-by-rows",
        "tfdpnorm/data/poisson.py",
        "self._num_examples = (self.persons or self.examples).count",
        "self._num_examples = self.examples.count",
        "q and N count rows where the accountant counts persons.",
        tests_in(_DATA, "test_a_person_is_drawn_with_their_own_rows"),
    ),
    fault(
        "rows-of-the-next-person",
        "tfdpnorm/data/persons.py",
        "order[first[:, np.newaxis] + chosen * is_there]",
        "order[(first[:, np.newaxis] + chosen * is_there + 1) % len(order)]",
        "A person's gradient has a row of somebody else, who is then in two of them.",
        tests_in(_DATA, "test_a_person_is_drawn_with_their_own_rows"),
    ),
    fault(
        "persons-rows-are-those-of-another-plan",
        "tfdpnorm/training/checks/settings.py",
        'for name in ("most_per_person", "num_examples", "expected_batch_size"):',
        'for name in ("num_examples", "expected_batch_size"):',
        "The ledger's plan is of rows where persons are trained, or has another k.",
        (_refusals,),
    ),
    fault(
        "noisy-answers-for-persons",
        "tfdpnorm/privacy/state.py",
        '    if plan.unit != "row":\n',
        "    if False:\n",
        "Noise for one validation row is stated for a person with many.",
        (_refusals,),
    ),
    fault(
        "phases-of-rows-and-persons",
        "tfdpnorm/privacy/plan.py",
        "if phase.unit != self.unit]",
        "if phase.unit == '']",
        "Epsilons of different neighbouring relations are composed.",
        (_refusals,),
    ),
    fault(
        "persons-drawn-where-rows-are",
        "tfdpnorm/privacy/plan.py",
        'return self.most_per_person if self.unit == "person" else None',
        "return self.most_per_person",
        "A plan that protects rows is taken for one whose batches are of persons.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "sampled-persons-with-several-shares",
        "tfdpnorm/privacy/command_of_settings.py",
        "plan.mechanism(plan.steps), plan.stated_per_person",
        "plan.mechanism(plan.steps), plan.most_per_person",
        "Where persons are sampled, a second figure is printed that is of no one.",
        tests_in("tests/privacy/test_command.py", "test_epsilon_for_persons"),
    ),
    fault(
        "persons-of-batches-without-persons",
        "tfdpnorm/training/checks/data.py",
        "    if plan.drawn_per_person is not None:\n        raise PrivacyError(\n"
        '            f"A plan with',
        '    if False:\n        raise ValueError(\n            f"A plan with',
        "Each row of a batch is taken for a person.",
        (_refusals,),
    ),
    fault(
        "rows-without-weight-in-the-averages",
        "tfdpnorm/training/noised_statistics.py",
        "views.mean(of_rows if share is None else of_rows * share)",
        "views.mean(of_rows)",
        "Running averages count a row several times where a person has few.",
        tests_in(_STEP, "test_running_averages_move_by_the_mean_over_a_persons_rows"),
    ),
    fault(
        "persons-by-the-last-folder",
        "tfdpnorm/data/image_folder.py",
        "np.array([folders[0] for folders in below])",
        "np.array([folders[-1] for folders in below])",
        "A person with folders of their own counts as several, each of whom is protected alone.",
        tests_in("tests/data/test_sources.py", "test_a_folder_of_images_says_whose_they_are"),
    ),
    fault(
        "persons-held-out-by-who-is-there",
        "tfdpnorm/data/image_folder.py",
        "_chance(name, seed) < fraction",
        "_chance(len(names), name) < fraction",
        "One person more moves others between training and test.",
        tests_in("tests/data/test_sources.py", "test_a_split_keeps_persons_whole"),
    ),
    fault(
        "persons-split-by-their-rows",
        "tfdpnorm/data/examples.py",
        "owners = np.argsort(np.argsort(first))[which]",
        "owners = np.arange(len(self))",
        "Somebody who is trained on has rows that are public, or held out.",
        tests_in("tests/data/test_public_batches.py", "test_persons_are_split_with_all_their_rows"),
    ),
    fault(
        "more-rows-of-a-person-than-stated",
        "trainers/runs/data.py",
        "    if train.persons is not None and spec.stated_per_person is not None:\n",
        "    if False:\n",
        "Epsilon is stated for persons with k rows, and some have more.",
        tests_in(
            "tests/trainers/programs/test_finetune.py",
            "test_persons_that_are_not_known_or_not_protected",
        ),
    ),
    fault(
        "persons-and-their-rows-out-of-step",
        "trainers/runs/data.py",
        "persons = None if persons is None else persons[kept]",
        "persons = None if persons is None else persons[: kept.sum()]",
        "Rows are taken for those of somebody else, who is then in two gradients of an update.",
        tests_in(
            "tests/trainers/ours/test_finetune.py",
            "test_images_of_a_person_share_one_part_of_the_data",
        ),
    ),
    fault(
        "rows-of-persons-with-the-noise-of-one",
        "trainers/ours/persons.py",
        "of_rows = 1 if per_person or way.is_for_row else way.most",
        "of_rows = 1",
        "The experiment compares an epsilon of a person with one of a row.",
        tests_in(
            "tests/trainers/ours/test_persons.py", "test_each_way_has_the_epsilon_that_it_says"
        ),
    ),
    fault(
        "rows-change-their-persons",
        "tfdpnorm/training/validation_data.py",
        "not all(known.have_rows_of(batches.persons) for _, known in same):",
        "False:",
        "A second fit with other ids lets a person change as much as several.",
        tests_in("tests/training/test_second_fit.py", "test_other_persons_of_the_same_rows"),
    ),
)
