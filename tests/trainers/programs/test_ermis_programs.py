"""`trainers.ermis_accountants` for noise that is given."""


def test_accountants_are_compared_for_given_noise(main):
    flags = ["--sampling_rate=0.05", "--updates=2000", "--noise_multiplier=5.94"]
    result = main("ermis_accountants", *flags)
    lines = [line.strip("| ").split(" | ") for line in result.out.strip().splitlines()[2:]]
    assert result.code == 0 and len(lines) == 8
    assert ["add/remove", "pld", "1.477", "yes"] in lines
    # "ac" needs a noise ratio of 5.84, and has half of 5.94 where an example is replaced.
    claims = [line[:2] for line in lines if line[3] != "yes"]
    assert claims == [["add/remove", "zcdp"], ["replace one", "ac"], ["replace one", "zcdp"]]
    assert all(line[3] == "yes" or line[3].startswith("NO GUARANTEE: ") for line in lines)
