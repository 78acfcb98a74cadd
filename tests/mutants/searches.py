"""Faults in what a search costs, in how its trials are drawn, and in what of it gets out."""

from tests.mutants.mutant import Mutant, tests_in

_SEARCH = "tfdpnorm/privacy/search.py"
_FOLDER = "tfdpnorm/tuning/folder.py"
_TUNER = "tfdpnorm/tuning/private_tuner.py"
_RANDOM = "tfdpnorm/tuning/searches.py"
_COMPOSED = "tfdpnorm/tuning/searches.py"
_PRIVACY_TESTS = ("tests/privacy/test_search.py",)
_TUNER_TESTS = "tests/tuning/test_private_random_search.py"
_KILLED_TESTS = "tests/tuning/test_killed_search.py"
_DISTRIBUTED_TESTS = "tests/tuning/test_distributed_search.py"
_ELSEWHERE_TESTS = "tests/tuning/test_search_elsewhere.py"

MUTANTS = (
    Mutant(
        "winner-tells-of-others",
        "tfdpnorm/training/callbacks/private_validation.py",
        (("        if ledger.state.search is not None:\n            return\n", ""),),
        "What the winner says of other answers tells that there were other trials.",
        ("tests/tuning/test_private_random_search.py",),
    ),
    Mutant(
        "search-costs-one-trial",
        _SEARCH,
        (
            (
                "return selection_epsilon(of_a_trial, plan.number_of_trials, delta)",
                "return rdp_to_epsilon(of_a_trial, delta)",
            ),
        ),
        "The choice between the trials is free.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "composed-trials-counted-once",
        _SEARCH,
        (
            (
                "return rdp_to_epsilon(plan.expected_trials * of_a_trial, delta)",
                "return rdp_to_epsilon(of_a_trial, delta)",
            ),
        ),
        "All trials but one are free.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "cheapest-lot-counts",
        _SEARCH,
        (
            (
                "return np.max([composed_rdp((mechanism,)) for mechanism in mechanisms], axis=0)",
                "return np.min([composed_rdp((mechanism,)) for mechanism in mechanisms], axis=0)",
            ),
        ),
        "A search over lots is paid for as if all had the cheapest.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "dearer-runs-are-trials",
        _SEARCH,
        (("and plan.steps <= updates\n", "\n"),),
        "A run with more updates than planned passes for a trial.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "scores-without-search",
        _SEARCH,
        (("planned = () if noise is None else ((1.0, noise, 1),)", "planned = ()"),),
        "Validation examples have an epsilon of 0 before their trial asks.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "ledger-forgets-its-search",
        "tfdpnorm/privacy/spending.py",
        (
            (
                "return search.epsilon(plan.delta, [trained, *asked] if asked else ())",
                "pass",
            ),
        ),
        "The winner's ledger states the epsilon of its own training.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "number-of-trials-drawn-again",
        _FOLDER,
        (('self._derived("number of trials")', 'self._derived("number", os.urandom(8))'),),
        "K is drawn anew whenever it is asked for: a search may go on until somebody is content.",
        tests_in(_TUNER_TESTS, "test_the_number_of_trials_is_drawn_once"),
    ),
    Mutant(
        "settings-without-replacement",
        "tfdpnorm/tuning/trials.py",
        (
            (
                '        return {"status": "RUNNING", "values": values}\n',
                "        others = [t.hyperparameters.values for t in self.trials.values()]\n"
                "        seed_of = self.folder.seed_of\n"
                "        for n in range(50):\n"
                "            if values in others:\n"
                "                values = random_values(space, lambda x: seed_of(n, x))\n"
                '        return {"status": "RUNNING", "values": values}\n',
            ),
        ),
        "Trials depend on each other, where the theorems want independent ones.",
        tests_in(_TUNER_TESTS, "test_two_trials_have_the_same_settings_as_often_as_chance_has_it"),
    ),
    Mutant(
        "secret-replaced",
        _FOLDER,
        (("if exists and self._key is None:", "if exists and self._key == b'':"),),
        "Without its secret a search draws another number of trials.",
        tests_in(_TUNER_TESTS, "test_a_search_without_its_secret_is_refused"),
    ),
    Mutant(
        "search-goes-on-with-other-rows",
        _FOLDER,
        (("            self._check_rows(self.ledger, rows)\n", ""),),
        "Rows that have scored one trial train another, where a program splits without a seed.",
        tests_in(_ELSEWHERE_TESTS, "TestRows::test_others_are_refused"),
    ),
    Mutant(
        "workers-with-other-rows",
        _FOLDER,
        (("            self._check_rows(ledger, rows)\n", "            pass\n"),),
        "A worker trains on rows that score the trials of another one.",
        tests_in(_ELSEWHERE_TESTS, "TestRows::test_a_worker_with_others_is_refused"),
    ),
    Mutant(
        "digest-of-rows-without-the-secret",
        _FOLDER,
        (('rows_digest(rows, self._derived("rows"))', 'rows_digest(rows, b"rows")'),),
        "Whoever sees the ledger of a search can try out which rows were private.",
        tests_in(_ELSEWHERE_TESTS, "TestRows::test_the_digest_is_keyed_by_the_secret"),
    ),
    Mutant(
        "copies-of-searches-unsaid",
        _FOLDER,
        (
            (
                '                self.ledger.record(caveat("copies_of_search"))\n',
                "                pass\n",
            ),
        ),
        "Two copies of a search have a winner each, and each states the epsilon of one.",
        tests_in(_ELSEWHERE_TESTS, "TestCopies::test_a_copy_and_its_winner_say_so"),
    ),
    Mutant(
        "winner-of-a-copy-unsaid",
        _FOLDER,
        (
            (
                "            for known in self.ledger.state.caveats:\n"
                "                own.record(known)\n",
                "",
            ),
        ),
        "The winner that was trained before the search was copied does not say so.",
        tests_in(_ELSEWHERE_TESTS, "TestCopies::test_a_winner_of_before_says_so"),
    ),
    Mutant(
        "composed-trials-of-a-copy-unsaid",
        _TUNER,
        (("run_dir, callbacks, caveats)", "run_dir, callbacks)"),),
        "The trials of a copy of a composed search state the epsilon of one search.",
        tests_in(_ELSEWHERE_TESTS, "TestCopies::test_all_trials_of_a_composed_search_say_so"),
    ),
    Mutant(
        "voids-of-other-trials-forgotten",
        _FOLDER,
        (
            (
                '                for reason in other.state.sentences("no_guarantee"):\n'
                "                    own.record(caveat("
                '"no_guarantee_of_other_trial", reason=reason))\n',
                "",
            ),
        ),
        "The choice between trials is guaranteed where one of them leaks.",
        tests_in(_TUNER_TESTS, "test_what_voids_one_trial_voids_the_winner"),
    ),
    Mutant(
        "trials-begin-unrecorded",
        _TUNER,
        (
            (
                "            self._folder.ledger.record(Trial(int(trial.trial_id)))\n",
                "            pass\n",
            ),
        ),
        "The ledger of a search does not know its trials.",
        tests_in(_DISTRIBUTED_TESTS, "test_a_trial_is_in_the_ledger_before_it_is_handed_out"),
    ),
    Mutant(
        "workers-of-another-search",
        _TUNER,
        (("            self._folder.check_same_search(rows)\n", ""),),
        "A worker with another budget trains trials of the search.",
        tests_in(_DISTRIBUTED_TESTS, "test_a_worker_of_another_search_is_refused"),
    ),
    Mutant(
        "any-number-of-composed-trials",
        _COMPOSED,
        (("        oracle.max_trials = min(trials, oracle.max_trials or trials)\n", ""),),
        "A composed search asks for more trials than it has planned for.",
        ("tests/tuning/test_composed_search.py",),
    ),
    Mutant(
        "losers-released",
        _RANDOM,
        (("        if asked != 1:\n", "        if asked < 1:\n"),),
        "More than the best of the trials can be asked for.",
        tests_in(_TUNER_TESTS, "test_only_the_winner"),
    ),
    Mutant(
        "winner-before-the-end",
        _RANDOM,
        (("if not (self._folder.has_ended and self._folder.winner.exists()):", "if False:"),),
        "Somebody may stop a search when its best score is good enough.",
        tests_in(_TUNER_TESTS, "test_a_killed_search_goes_on_with_the_same_trials"),
    ),
    Mutant(
        "trials-know-no-search",
        "tfdpnorm/tuning/hypermodel.py",
        (("        trial.declare(private.ledger)\n", ""),),
        "The winner of a user's own model states the epsilon of its own training.",
        tests_in("tests/tuning/test_documented_search.py", "test_the_documented_search"),
    ),
    Mutant(
        "settings-decide-what-the-search-does",
        "tfdpnorm/tuning/hypermodel.py",
        (('    "insecure_seed",\n', ""),),
        "The noise of all trials follows from a seed that somebody knows.",
        tests_in(_TUNER_TESTS, "test_settings_that_the_search_decides"),
    ),
    Mutant(
        "training-rows-score",
        _TUNER,
        (
            (
                "        self._score.check_training_data("
                "x.x if isinstance(x, PoissonBatches) else x)\n",
                "",
            ),
        ),
        "Scores look at training examples, whose epsilon does not count them.",
        tests_in(_TUNER_TESTS, "test_validation_rows_that_are_training_rows_are_refused"),
    ),
    Mutant(
        "public-scores-of-training-rows",
        "tfdpnorm/tuning/trials.py",
        (('check_no_training_rows(self._x, trained, remedy="")', "del trained"),),
        "Scores without noise are of training examples, and the epsilon is said to cover them.",
        tests_in(_TUNER_TESTS, "test_public_validation_rows_that_are_training_rows_are_refused"),
    ),
    Mutant(
        "public-rows-of-trials-unchecked",
        _TUNER,
        (("        self._check_public_rows(trial.hyperparameters)\n", ""),),
        "A trial chooses public rows that are validation rows to be protected.",
        tests_in(
            _TUNER_TESTS, "test_public_rows_that_a_trial_chooses_are_no_validation_rows_either"
        ),
    ),
    Mutant(
        "failed-trials-made-up-for",
        "tfdpnorm/tuning/trials.py",
        (
            (
                "if len(self.trials) >= self.folder.number_of_trials():",
                "ended = [t for t in self.trials.values() if t.status != 'FAILED']\n"
                "        if len(ended) >= self.folder.number_of_trials():",
            ),
        ),
        "A trial that fails is free, and another one takes its place.",
        tests_in(_TUNER_TESTS, "test_a_trial_that_fails_counts_and_is_not_made_up_for"),
    ),
    Mutant(
        "scores-with-half-the-noise",
        "tfdpnorm/tuning/trials.py",
        (("noise_multiplier=noise, queries=1", "noise_multiplier=noise / 2, queries=1"),),
        "Scores have less noise than the search has planned for.",
        tests_in(_TUNER_TESTS, "test_the_winner_has_the_epsilon_of_the_search"),
    ),
    Mutant(
        "best-of-many-too-cheap",
        "tfdpnorm/privacy/selection.py",
        (
            (
                "found = run_rdp + extra + math.log(runs.mean) / (orders - 1)",
                "found = run_rdp + extra + math.log(runs.mean) / orders",
            ),
        ),
        "A search costs less than the theorem says.",
        _PRIVACY_TESTS,
    ),
    Mutant(
        "private-questions-in-trials",
        "tfdpnorm/tuning/hypermodel.py",
        (("if isinstance(callback, PrivateValidation):", "if callback is None:"),),
        "A trial asks more about validation examples than the search has planned for.",
        tests_in(_TUNER_TESTS, "test_private_questions_in_a_trial_are_refused"),
    ),
    Mutant(
        "trials-lost-as-they-begin",
        _TUNER,
        (("            run_again_what_began(self.oracle)\n", "            pass\n"),),
        "A trial whose process was killed as it began counts and is never made.",
        tests_in(_KILLED_TESTS, "test_nothing_is_lost_or_made_twice"),
    ),
    Mutant(
        "state-of-a-search-half-written",
        _TUNER,
        (("        keep_whole(oracle, files.write_whole)\n", ""),),
        "A search whose process was killed while it wrote cannot be resumed.",
        tests_in(_KILLED_TESTS, "test_keras_tuner_writes_no_file_of_its_own"),
    ),
    Mutant(
        "secret-of-an-ended-search-stays",
        _TUNER,
        (("            self._folder.forget_secret()  #", "            pass  #"),),
        "The secret is never deleted where the process was killed before it did.",
        tests_in(_KILLED_TESTS, "test_nothing_is_lost_or_made_twice"),
    ),
    Mutant(
        "trials-with-known-seeds",
        _TUNER,
        (
            (
                "            keras.utils.set_random_seed(secrets.randbelow(2**31))\n",
                "            pass\n",
            ),
        ),
        "Trials are not equally distributed where a program seeds its initial weights.",
        tests_in(_TUNER_TESTS, "test_no_seed_of_the_program_tells_trials_apart"),
    ),
    Mutant(
        "losers-loaded",
        _RANDOM,
        (("if self._winner(1).trial_id != trial.trial_id:", "if self._winner(1) is None:"),),
        "A trial that lost can be loaded, with a statement that has the epsilon of the search.",
        tests_in(_TUNER_TESTS, "test_no_other_way_to_the_trials_that_lost"),
    ),
    Mutant(
        "trials-shown-one-by-one",
        _TUNER,
        (
            (
                "        keras.backend.clear_session()\n",
                '        keras.backend.clear_session()\n        self._say("A trial begins.")\n',
            ),
        ),
        "A program's output tells how many trials there were.",
        tests_in(_TUNER_TESTS, "test_what_is_printed_does_not_tell_how_many_trials_there_were"),
    ),
    Mutant(
        "trials-written-down",
        "tfdpnorm/tuning/hypermodel.py",
        (("if isinstance(callback, _WRITERS) and not is_composed:", "if callback is None:"),),
        "Callbacks leave losses and weights of the trials that lost outside of the folder.",
        tests_in(_TUNER_TESTS, "test_callbacks_that_write_trials_down_are_refused"),
    ),
    Mutant(
        "key-for-everybody",
        "tfdpnorm/tuning/folder.py",
        (("os.O_EXCL, 0o600", "os.O_EXCL, 0o644"),),
        "Every user of the machine can tell how many trials there were.",
        tests_in(_TUNER_TESTS, "test_the_number_of_trials_is_drawn_once"),
    ),
    Mutant(
        "winner-shows-its-file",
        _FOLDER,
        (("        forget_place(run)\n", ""),),
        "The number of the winner's file tells how many trials there were before it.",
        tests_in(_TUNER_TESTS, "test_the_winner_does_not_show_the_number_of_its_file"),
    ),
    Mutant(
        "ended-trials-train-further",
        _TUNER,
        (("            private.ledger.record(Finish())\n", ""),),
        "The winner can be trained further, within an epsilon that was chosen for less.",
        tests_in(_KILLED_TESTS, "test_nothing_is_lost_or_made_twice"),
    ),
)
