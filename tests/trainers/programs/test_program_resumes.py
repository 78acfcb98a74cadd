"""Programs that are resumed after a crash."""

RUN = (
    "--dataset=digits",
    "--norm=layer",
    "--epsilon=2",
    "--max_examples=300",
    "--delta=1e-3",
    "--expected_batch_size=32",
    "--steps=4",
    "--checkpoint_every=2",
)


def test_runs_that_cannot_be_trained_leave_no_folder(main, tmp_path):
    """That no noise is enough is found when the settings are already in the folder."""
    places = (f"--output_dir={tmp_path / 'out'}", f"--run_dir={tmp_path / 'run'}")
    result = main("davody_dp", *RUN, "--epsilon=1e-9", *places)
    assert result.code == 2 and not (tmp_path / "run").exists()
