"""Rappel and its peers behind one set of verbs. Each verb gives the cost of the tool's own commands, nothing else.

The sequences are those that the tools, or the agents built on them, run; each tool in its usual configuration.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from process import Cost, run


class Tool:
    name = "?"
    program = "?"            # as `programs.peer` knows it
    about = "?"
    needs_git = False        # works inside the user's repository
    init_counts = False      # making the store is a visible part of its first save
    saves_on_restore = False # a restore keeps what was not saved
    full = None              # (id, folder) -> Cost, where it can restore elsewhere
    compact = None           # () -> Cost
    too_slow = ()            # trees that it is left out of unless asked for by name
    loose = False            # one file per object: takes as much room as the tree
    litter = ()              # what it adds to the tree
    view = ()                # what below its store is a cache

    def __init__(self, program, work, tree):
        self.program, self.work, self.tree = program, Path(work), Path(tree)
        self.store, self.number, self.last = self.work / "store", 0, None
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GIT_", "RAPPEL_"))}
        self.env = {**keep, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}

    def run(self, *words, cwd=None, ok=(0,), **env):
        extra = {key: os.fspath(value) for key, value in env.items()}
        return run([self.program, *words], cwd or self.tree, {**self.env, **extra}, ok)

    def forget(self):
        """Away with the store and the caches, so that the next save is a first one; moved, not deleted."""
        for path in self.state():
            if path.exists():
                self.number += 1
                aside = self.work / "aside"
                aside.mkdir(exist_ok=True)
                path.rename(aside / str(self.number))

    def state(self):
        return [self.store]

    def init(self):
        return Cost()

    def save(self):
        """Sets `last`, the id of what was saved."""
        raise NotImplementedError

    def restore(self, ident):
        raise NotImplementedError

    def copy_store(self):
        """A copy as it is now goes aside; `compact` later works on that, whatever happened in between."""
        subprocess.run(["cp", "-a", self.store, self.work / "copy"], check=True)

    def take_copy(self):
        self.store.rename(self.work / "after")
        (self.work / "copy").rename(self.store)


class Rappel(Tool):
    name = "rappel"
    about = "`save`, `restore --confirm` with its safety checkpoint and verification, `restore --to`, `gc --now`"
    saves_on_restore = True
    view = ("cache", "reserve")

    def rappel(self, *words):
        return self.run(*words, RAPPEL_HOME=self.store)

    def save(self, *words):
        self.number += 1
        cost, said = self.rappel("save", "-q", f"checkpoint {self.number}", "--json", *words)
        self.last = json.loads(said)["id"]
        return cost

    def restore(self, ident):
        return self.rappel("restore", ident, "--confirm", "-q")[0]

    def full(self, ident, folder):
        return self.rappel("restore", ident, "--to", folder, "-q")[0]

    def compact(self):
        return self.rappel("gc", "--now", "--confirm")[0]

    def list(self, *words):
        return self.rappel("list", *words)[0]

    def show(self, ident):
        return self.rappel("show", ident)[0]

    def diff(self, one, other):
        return self.rappel("diff", one, other)[0]


class RappelInGit(Rappel):
    name = "rappel-git"
    about = "rappel in a git repository: selection by git's rules, the repository's own state captured too"
    needs_git = True

    def git(self, *words):
        settings = ["-c", "user.name=b", "-c", "user.email=b@b", "-c", "gc.auto=0", "-c", "maintenance.auto=false"]
        return run(["git", *settings, *words], self.tree, self.env)[0]

    def bundle(self):
        """Everything of the repository in one file, as git itself does it."""
        file = self.work / "all.bundle"
        file.unlink(missing_ok=True)
        return self.git("bundle", "create", "-q", file, "--all")

    def guard(self, file):
        """What `rappel guard --shell` adds to a destructive command; nothing is removed."""
        return self.rappel("guard", "--line", f"rm -rf {shlex.quote(str(file))}")[0]

    def tick(self):
        """A timer's capture below `run` while nothing changes, as the run itself measures it; the middle one of several."""
        env = {**self.env, "RAPPEL_HOME": os.fspath(self.store), "RAPPEL_LOG": "rappel::run=debug"}
        done = subprocess.run([self.program, "run", "-q", "--interval", "200ms", "--", "sleep", "1.5"], cwd=self.tree, env=env,
                              capture_output=True, text=True, check=True)
        took = sorted(float(ms) for ms in re.findall(r"tick took_ms=([0-9.]+) created=false", done.stderr))
        return Cost(ms=took[len(took) // 2])

    def first(self, *words):
        """A save into a home that has nothing yet."""
        self.number += 1
        return self.run("save", "-q", *words, RAPPEL_HOME=self.work / f"git.{self.number}")[0]


class Git(Tool):
    """A repository of its own beside the work tree, as Cline and others do."""
    name = "git"
    program = "git"
    loose = True
    about = "shadow repository: `add -A`, `commit`; `reset --hard`; `read-tree -u` elsewhere; `gc`; objects not synced"

    def init(self):
        self.at = {"GIT_DIR": self.store, "GIT_WORK_TREE": self.tree}
        cost = self.run("init", "-q", **self.at)[0]
        with open(self.store / "config", "a") as config:
            config.write("[user]\n\tname = b\n\temail = b@b\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
        return cost

    def save(self):
        cost = self.run("add", "-A", **self.at)[0]
        cost += self.run("commit", "-q", "--allow-empty", "--no-verify", "-m", "checkpoint", **self.at)[0]
        self.last = self.run("rev-parse", "HEAD", **self.at)[1].strip()
        return cost

    def restore(self, ident):
        return self.run("reset", "-q", "--hard", ident, **self.at)[0]

    def full(self, ident, folder):
        self.number += 1
        return self.run("read-tree", "-u", "--reset", ident, cwd=folder, GIT_DIR=self.store, GIT_WORK_TREE=folder,
                        GIT_INDEX_FILE=self.work / f"full.{self.number}")[0]

    def compact(self):
        return self.run("gc", "-q", "--prune=now", **self.at)[0]


class GitIndex(Git):
    """Inside the user's own repository, where most objects are already there."""
    name = "git-index"
    loose = False
    about = "private index in the user's own repository: `add -A`, `write-tree`, `commit-tree`, `update-ref`; `read-tree -u`"
    needs_git = True

    def init(self):
        self.store, self.index = self.tree / ".git", self.work / "private.index"
        self.at = {"GIT_INDEX_FILE": self.index}
        shutil.copy2(self.store / "index", self.index)
        return Cost()

    def state(self):
        return [self.work / "private.index"]

    def save(self):
        self.number += 1
        cost = self.run("add", "-A", **self.at)[0]
        step, tree = self.run("write-tree", **self.at)
        cost += step
        step, commit = self.run("commit-tree", tree.strip(), "-p", "HEAD", "-m", "checkpoint", **self.at)
        self.last = commit.strip()
        return cost + step + self.run("update-ref", f"refs/checkpoints/{self.number}", self.last)[0]

    def restore(self, ident):
        return self.run("read-tree", "-u", "--reset", ident, **self.at)[0]


class Jj(Tool):
    name = "jj"
    program = "jj"
    loose = True
    about = "`jj util snapshot`, `op restore`, `workspace add` elsewhere, `util gc`"
    init_counts = True
    saves_on_restore = True
    litter = (".jj",)

    def init(self):
        self.store = self.tree / ".jj"
        config = self.work / "jj.toml"
        config.write_text('user.name = "b"\nuser.email = "b@b"\nsnapshot.max-new-file-size = 0\nui.paginate = "never"\n')
        self.env["JJ_CONFIG"] = str(config)
        return self.run("git", "init", "--no-colocate", ".", "--quiet")[0]

    def state(self):
        return [self.tree / ".jj"]

    def save(self):
        cost = self.run("util", "snapshot", "--quiet")[0]
        self.last = self.run("op", "log", "-n1", "--no-graph", "-T", "id", "--ignore-working-copy")[1].strip()
        return cost

    def restore(self, ident):
        return self.run("op", "restore", ident, "--quiet")[0]

    def full(self, ident, folder):
        self.number += 1
        os.rmdir(folder)
        return self.run("workspace", "add", "--name", f"copy{self.number}", "-r", "default@", folder, "--quiet")[0]

    def compact(self):
        return self.run("util", "gc", "--expire", "now", "--quiet", "--ignore-working-copy")[0]


class Restic(Tool):
    name = "restic"
    program = "restic"
    about = "`backup`, `restore`, `prune --max-unused 0`; always encrypted"

    def state(self):
        return [self.store, self.work / "cache"]

    def init(self):
        self.env.update(RESTIC_REPOSITORY=str(self.store), RESTIC_PASSWORD="x", RESTIC_CACHE_DIR=str(self.work / "cache"))
        return self.run("init", "-q", "--repository-version", "2")[0]

    def save(self):
        cost, said = self.run("backup", "--json", ".")
        self.last = json.loads(said.strip().splitlines()[-1])["snapshot_id"]
        return cost

    def restore(self, ident):
        # 0.14 complains about symlinks that exist already; the files are restored
        return self.run("restore", "-q", ident, "--target", self.tree, ok=(0, 1))[0]

    def full(self, ident, folder):
        return self.run("restore", "-q", ident, "--target", folder)[0]

    def compact(self):
        return self.run("prune", "-q", "--max-unused", "0")[0]


class Rustic(Tool):
    name = "rustic"
    program = "rustic"
    about = "`backup`, `restore --delete`, `prune`; always encrypted"

    def state(self):
        return [self.store, self.work / "cache"]

    def init(self):
        self.env.update(RUSTIC_REPOSITORY=str(self.store), RUSTIC_PASSWORD="x", RUSTIC_CACHE_DIR=str(self.work / "cache"),
                        RUSTIC_NO_PROGRESS="true", RUSTIC_LOG_LEVEL="warn")
        return self.run("init")[0]

    def save(self):
        cost, said = self.run("backup", "--json", ".")
        answer = json.loads(said)
        self.last = (answer if isinstance(answer, dict) else answer[0])["id"]
        return cost

    def restore(self, ident):
        return self.run("restore", "--delete", ident, self.tree)[0]

    def full(self, ident, folder):
        return self.run("restore", ident, folder)[0]

    def compact(self):
        return self.run("prune", "--instant-delete", "--max-unused", "0B")[0]


class Borg(Tool):
    name = "borg"
    program = "borg"
    about = "`create` with zstd, not encrypted; `extract`; `compact`"

    def state(self):
        return [self.store, self.work / "base"]

    def init(self):
        self.env.update(BORG_REPO=str(self.store), BORG_BASE_DIR=str(self.work / "base"),
                        BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes", BORG_RELOCATED_REPO_ACCESS_IS_OK="yes")
        return self.run("init", "-e", "none")[0]

    def save(self):
        self.number += 1
        self.last = f"s{self.number}"
        return self.run("create", "--compression", "zstd,3", f"::{self.last}", ".")[0]

    def restore(self, ident):
        return self.run("extract", f"::{ident}")[0]

    def full(self, ident, folder):
        return self.run("extract", f"::{ident}", cwd=folder)[0]

    def compact(self):
        return self.run("compact")[0]


class Savestate(Tool):
    name = "savestate"
    program = "savestate"
    loose = True
    about = "`create`, `restore --yes`; no restore elsewhere, no compaction"
    saves_on_restore = True
    too_slow = ("large",)
    litter = (".savestate", ".savestate.toml")

    def state(self):
        return [self.tree / name for name in self.litter]

    def init(self):
        self.store = self.tree / ".savestate"
        return self.run("init")[0]

    def save(self):
        cost, said = self.run("create")
        self.last = said.split("Created ", 1)[1].split()[0]
        return cost

    def restore(self, ident):
        return self.run("restore", "--yes", ident)[0]


class RappelBefore(Rappel):
    """An earlier binary (`--before`), to show what a change cost."""
    name = "rappel-before"
    about = "the binary that `--before` names"
    compact = None


class RappelInGitBefore(RappelInGit):
    name = "rappel-git-before"
    about = "the same in a git repository"
    compact = None
    guard = None
    tick = None


PEERS = {tool.name: tool for tool in (Git, GitIndex, Jj, Restic, Rustic, Borg, Savestate)}
OURS = {tool.name: tool for tool in (Rappel, RappelInGit)}
BEFORE = {"rappel": RappelBefore, "rappel-git": RappelInGitBefore}
