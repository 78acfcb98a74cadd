"""What the machine and the process's control groups leave in memory, from files as Linux has."""

import pytest

from tfdpnorm import memory

MEGABYTE = 2**20


@pytest.fixture
def linux(tmp_path, monkeypatch):
    """Returns a function that writes files, a dict from paths to texts, which Linux then has."""
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "cgroups")

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(text))

    return write


FREE = {"proc/meminfo": "MemTotal: 4096000 kB\nMemAvailable: 2048000 kB\n"}


def group(folder, limit, used, caches, names=("memory.max", "memory.current", "inactive_file")):
    return {
        f"cgroups/{folder}{names[0]}": limit if limit == "max" else limit * MEGABYTE,
        f"cgroups/{folder}{names[1]}": used * MEGABYTE,
        f"cgroups/{folder}memory.stat": f"anon 5\n{names[2]} {caches * MEGABYTE}\n",
    }


def test_without_groups_the_machine_says_what_is_free(linux):
    assert memory.available_megabytes() is None
    linux(FREE)
    assert memory.available_megabytes() == 2000


def test_a_container_leaves_its_limit_less_what_is_used(linux):
    linux({**FREE, "proc/self/cgroup": "0::/\n", **group("", 1000, 700, 200)})
    assert memory.available_megabytes() == 500


def test_a_group_above_may_leave_less(linux):
    linux({**FREE, "proc/self/cgroup": "0::/job/step\n"})
    linux({**group("", "max", 1900, 0), **group("job/step/", 1500, 100, 0)})
    assert memory.available_megabytes() == 1400
    linux(group("job/", 1200, 1000, 50))
    assert memory.available_megabytes() == 250


def test_groups_of_the_first_version(linux):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    linux({**FREE, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/ab\n0::/\n"})
    linux(group("memory/", 2**43, 1000, 0, names))  # as good as none
    assert memory.available_megabytes() == 2000
    linux(group("memory/docker/ab/", 900, 300, 0, names))
    assert memory.available_megabytes() == 600
