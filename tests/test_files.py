"""Files that are whole or not there, folders that can be written to, and locks."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from tests.each import each
from tfdpnorm import files

WRITERS = [files.write_whole, files.write_new]


def failing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def path(tmp_path):
    return tmp_path / "record.json"


@pytest.fixture
def no_hard_links(monkeypatch):
    monkeypatch.setattr(os, "link", failing(errno.EPERM))


def names(folder):
    return sorted(os.listdir(folder))


# --- files ---


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    "data, content",
    [
        ("Caf\u00e9\n", b"Caf\xc3\xa9\n"),
        (b"\x00\xff\r\n", b"\x00\xff\r\n"),
        ("", b""),
        (b"x" * 3_000_000, b"x" * 3_000_000),
    ],
    ids=["text", "bytes", "nothing", "much"],
)
def test_a_file_holds_what_was_written(path, write, durable, data, content):
    assert write(str(path), data, durable=durable) == path
    assert path.read_bytes() == content and names(path.parent) == [path.name]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("what", ["file", "folder", "dangling link"])
def test_write_new_leaves_an_existing_name_alone(path, what, links, request):
    if not links:
        request.getfixturevalue("no_hard_links")
    if what == "file":
        path.write_text("old")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.parent / "absent")
    with pytest.raises(FileExistsError):
        files.write_new(path, "new")
    assert names(path.parent) == [path.name]
    assert what != "file" or path.read_text() == "old"


@each("write", WRITERS)
@each("name", ["absent/record.json", "file/record.json"])
def test_a_folder_that_is_none(tmp_path, write, name):
    (tmp_path / "file").write_text("a file")
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        write(tmp_path / name, "new")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "a file"


@each("data", [None, 3, [], ["x"], "\ud800"], ids=repr)
def test_invalid_content_changes_no_file(path, data):
    path.write_text("old")
    with pytest.raises((TypeError, UnicodeEncodeError)):
        files.write_whole(path, data)
    assert path.read_text() == "old" and names(path.parent) == [path.name]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("fails", ["at once", "half way", "interrupted"])
def test_a_write_that_fails_changes_nothing(path, monkeypatch, durable, fails):
    real = os.write

    def full(descriptor, data):
        if fails == "interrupted":
            raise KeyboardInterrupt
        if fails == "at once" or len(data) < 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2])

    path.write_text("old")
    monkeypatch.setattr(os, "write", full)
    expected = KeyboardInterrupt if fails == "interrupted" else OSError
    for write, name in ((files.write_whole, path.name), (files.write_new, "other")):
        with pytest.raises(expected) as failed:
            write(path.parent / name, "new content", durable=durable)
        assert fails == "interrupted" or failed.value.errno == errno.ENOSPC
    assert path.read_text() == "old" and names(path.parent) == [path.name]


def test_a_disk_that_takes_a_byte_at_a_time_gets_all(path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:1]))
    files.write_whole(path, "all of it", durable=True)
    assert path.read_text() == "all of it"


@pytest.mark.parametrize("step", ["write", "replace", "link"])
def test_a_killed_writer_leaves_what_was_there_or_nothing(path, step):
    path.write_text("old")
    code = (
        "import os, sys\n"
        "from tfdpnorm import files\n"
        f"os.{step} = lambda *_: os.kill(os.getpid(), 9)\n"
        "files.write_whole(sys.argv[1], 'new') if sys.argv[2] == 'replace' else None\n"
        "files.write_new(sys.argv[1] + '.other', 'new')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), step], timeout=60)
    assert done.returncode == -9
    assert path.read_text() == "old"
    assert [name for name in names(path.parent) if not name.startswith(".")] == [path.name]


def test_without_hard_links_a_failed_rename_gives_the_name_back(path, monkeypatch, no_hard_links):
    monkeypatch.setattr(os, "replace", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.write_new(path, "new")
    assert names(path.parent) == []


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.parametrize("write", WRITERS)
def test_the_umask_decides_who_may_read(path, write, umask, mode):
    before = os.umask(umask)
    try:
        write(path, "content")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(
    "write, renames", [(files.write_whole, "replace"), (files.write_new, "link")]
)
@pytest.mark.parametrize("durable", [False, True])
def test_durable_flushes_content_first_and_then_the_name(
    path, monkeypatch, write, renames, durable
):
    done = []

    def noted(name, real, what):
        def call(*arguments):
            done.append((name, what(*arguments)))
            return real(*arguments)

        return call

    def kind(descriptor):
        return (
            "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size
        )

    monkeypatch.setattr(files, "_TO_DISK", noted("flush", files._TO_DISK, kind))
    monkeypatch.setattr(os, "fsync", noted("flush", os.fsync, kind))
    monkeypatch.setattr(os, renames, noted("rename", getattr(os, renames), lambda *_: path.name))
    write(path, "content", durable=durable)
    rename = ("rename", path.name)
    assert done == ([("flush", 7), rename, ("flush", "folder")] if durable else [rename])


# --- folders ---


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_rejected(tmp_path, monkeypatch, number):
    """Simulated, since the tests may run as root, whom no mode stops."""
    monkeypatch.setattr(files.pathlib.Path, "touch", failing(number))
    with pytest.raises(OSError, match=f"got .*: {os.strerror(number)}. Name another one."):
        files.make_folder(tmp_path, "run_dir")
    assert names(tmp_path) == []


# --- reasons ---


# --- locks ---

HOLDER = (
    "import os, sys\n"
    "from tfdpnorm import files\n"
    "descriptor = os.open(sys.argv[1], os.O_RDONLY)\n"
    "print(files.lock(descriptor), flush=True)\n"
    "sys.stdin.readline()\n"
    "open(sys.argv[2], 'w').close()\n"
)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_two_processes_and_a_lock(tmp_path, kind):
    pytest.importorskip("fcntl")
    place, released = tmp_path / "place", tmp_path / "released"
    place.mkdir() if kind == "folder" else place.touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place), str(released)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    descriptor = os.open(place, os.O_RDONLY)
    try:
        assert holder.stdout.readline() == "True\n"
        with pytest.raises(BlockingIOError):
            files.lock(descriptor)
        assert not released.exists()
        release = threading.Thread(target=holder.communicate, args=("\n",))
        release.start()
        assert files.lock(descriptor, wait=True) is True
        assert released.exists(), "it was unlocked before the other process had done"
        release.join(timeout=60)
    finally:
        os.close(descriptor)
        holder.kill()
        holder.wait()


def test_without_locks_nothing_is_locked(path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    with monkeypatch.context() as patch:
        patch.setattr(files, "fcntl", None)
        assert files.lock(descriptor) is False and files.lock(descriptor, wait=True) is False
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    assert files.lock(descriptor) is False
    os.close(descriptor)


# --- what importing loads ---


@each("module", ["files", "arguments"])
def test_the_ground_loads_neither_numpy_nor_tensorflow(module):
    code = (
        f"import sys, tfdpnorm.{module}\n"
        "print(sorted({'numpy', 'tensorflow', 'keras', 'dp_accounting'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.stdout == "[]\n", out.stderr
