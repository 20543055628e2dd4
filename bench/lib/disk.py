"""Where measuring happens: an empty file system for every tree, and how much something takes on it.

ext4 scans past recently deleted inodes on every create, so a mass delete makes the files created in the next minutes
cost up to 17 times more. Nothing is deleted here while anything is measured: as root each tree gets a newly made
file system in a preallocated image; otherwise old things stay where they are and are deleted when all is done.
"""
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


def sync():
    os.sync()


def sync_file_system(path):
    """Everything written so far to the file system of `path` is on the disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if _libc.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "syncfs", os.fspath(path))
    finally:
        os.close(handle)


def usage(root, skip=()):
    """(bytes on disk, apparent bytes) of everything below `root`, but the top-level names in `skip`."""
    allocated = apparent = 0
    seen = set()
    for folder, folders, files in os.walk(root):
        if folder == os.fspath(root):
            folders[:] = [name for name in folders if name not in skip]
            files = [name for name in files if name not in skip]
        for name in folders + files:
            found = os.lstat(os.path.join(folder, name))
            if found.st_ino in seen:
                continue
            seen.add(found.st_ino)
            allocated += found.st_blocks * 512
            apparent += 0 if name in folders else found.st_size
    return allocated, apparent


class LoopDisk:
    """An ext4 image, formatted anew for every tree and mounted outside any repository."""

    def __init__(self, work):
        self.image, self.point = work / "disk.img", Path(tempfile.mkdtemp(prefix="rappel-bench-", dir="/var/tmp"))
        self.description = "a fresh ext4 in a preallocated loop image"

    def fresh(self, size, inodes):
        self.close()
        size += 1 << 30
        self.image.unlink(missing_ok=True)
        enough(self.image.parent, size)
        with open(self.image, "wb") as image:
            os.posix_fallocate(image.fileno(), 0, size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(inodes), "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
                        self.image], check=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.point], check=True)
        sync()
        return self.point

    def close(self):
        """Unmounts it, a mount left by a run that was killed too."""
        used = subprocess.run(["losetup", "-n", "-O", "NAME", "-j", self.image], check=True, capture_output=True, text=True)
        for device in used.stdout.split():
            subprocess.run(["umount", device], check=True)

    def remove(self):
        self.close()
        self.image.unlink(missing_ok=True)
        self.point.rmdir()


class PlainDisk:
    """A folder of the file system that is there, outside any repository."""

    def __init__(self):
        self.root, self.used = Path(tempfile.mkdtemp(prefix="rappel-bench-", dir="/var/tmp")), 0
        self.description = "the machine's own file system, used before (not root: no fresh one)"

    def fresh(self, size, inodes):
        enough(self.root, size)
        self.used += 1
        path = self.root / str(self.used)
        path.mkdir(parents=True)
        sync()
        return path

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def enough(folder, size):
    free = shutil.disk_usage(folder).free
    if free < size + (4 << 30):
        raise SystemExit(f"{(size >> 30) + 4} GiB needed, {free >> 30} GiB free; hint: fewer --peers, or --runs")


def disk(work):
    """The best disk that this user may have."""
    can_mount = os.geteuid() == 0 and shutil.which("mkfs.ext4") and os.path.exists("/dev/loop-control")
    return LoopDisk(work) if can_mount else PlainDisk()
