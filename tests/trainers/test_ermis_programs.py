"""The programs of Ermis & Cemgil: their flags reach the spec, and mistakes end in a line."""


def test_figure_3_is_written(main, tmp_path):
    result = main("ermis_accountants", f"--output_dir={tmp_path}", "--epsilons=1")
    assert result.code == 0, result.err
    assert "root over the ratio" in result.out
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "ermis_figure3-accountants-seed0.json",
        "ermis_figure3.md",
        "ermis_figure3.png",
    ]


def test_a_figure_without_a_record_is_a_mistake(main, tmp_path):
    result = main("ermis_accountants", f"--output_dir={tmp_path}", "--nocompute")
    assert result.code == 2 and "Expected a record in" in result.err
