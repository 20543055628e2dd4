"""The small change that is saved and restored, the same for every tool, and the checks that it came back."""
import filecmp
import os
import random
import stat

TEXT = (".rs", ".py", ".go", ".md", ".toml", ".txt", ".js", ".ts", ".html", ".json", ".yml", ".yaml", ".c", ".h")


def editable(tree):
    """Text files of ordinary size, in a fixed order."""
    found = []
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(name for name in folders if name not in (".git", ".jj", ".savestate"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and 200 < about.st_size < 200_000 and name.endswith(TEXT):
                found.append(os.path.relpath(path, tree))
    return found


def change(tree, files, seed):
    """Three lines more in 10 files, and 2 new ones of about 1.6 KB. Gives {path: content before, None if new}."""
    rng, before = random.Random(90_000 + seed), {}
    for path in rng.sample(files, 10):
        with open(os.path.join(tree, path), "r+b") as file:
            before[path] = file.read()
            lines = (f"// change {seed} {rng.getrandbits(64):x} of this file by an agent\n" for _ in range(3))
            file.write("".join(lines).encode())
    for number in range(2):
        path = os.path.join(os.path.dirname(rng.choice(files)), f"added_{seed}_{number}.rs")
        before[path] = None
        with open(os.path.join(tree, path), "w") as file:
            file.writelines(f"fn f{rng.getrandbits(40):x}() -> u64 {{ {rng.getrandbits(64)} }}\n" for _ in range(40))
    return before


def put_back(tree, before):
    """What a restore should have done: gives (paths with wrong content, new files left behind), and removes the latter."""
    wrong, left = [], []
    for path, content in before.items():
        whole = os.path.join(tree, path)
        if content is None:
            if os.path.lexists(whole):
                left.append(path)
                os.unlink(whole)
        else:
            with open(whole, "rb") as file:
                if file.read() != content:
                    wrong.append(path)
    return wrong, left


def differences(tree, copy, ignore):
    """Paths that a full restore lost or changed: content, kind, executable bit, empty folders."""
    lost, changed = [], []
    for folder, folders, files in os.walk(tree):
        if folder == os.fspath(tree):
            folders[:] = [name for name in folders if name not in ignore]
            files = [name for name in files if name not in ignore]
        for name in folders + files:
            path = os.path.join(folder, name)
            other = os.path.join(copy, os.path.relpath(path, tree))
            if not os.path.lexists(other):
                lost.append(os.path.relpath(path, tree))
            elif not same(path, other):
                changed.append(os.path.relpath(path, tree))
    return lost, changed


def same(one, other):
    a, b = os.lstat(one), os.lstat(other)
    if stat.S_IFMT(a.st_mode) != stat.S_IFMT(b.st_mode):
        return False
    if stat.S_ISLNK(a.st_mode):
        return os.readlink(one) == os.readlink(other)
    if stat.S_ISDIR(a.st_mode):
        return True
    return (a.st_mode ^ b.st_mode) & 0o100 == 0 and filecmp.cmp(one, other, shallow=False)
