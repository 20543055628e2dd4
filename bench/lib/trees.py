"""The trees that are measured: generated source text, the same bytes on every machine.

A generated tree has the shape of a real checkout: its number of files and folders, the spread of file sizes, a few
folders with very many entries, and text that compresses like source code, alone and next to its neighbours.
It also holds what a careless tool loses: empty folders, symlinks, executables, CRLF line ends, binary files.
"""
import json
import multiprocessing
import os
import random
import subprocess
from dataclasses import dataclass

VERSION = 1  # of the generator: trees made by another one are made again


@dataclass(frozen=True)
class Shape:
    files: int
    folders: int
    bytes: int
    spread: float   # of file sizes, the sigma of their log-normal distribution
    novelty: float  # share of lines that no other file of the package has
    echo: float     # share of lines that begin a repetition of earlier ones of the same file
    names: int      # distinct identifiers in one package
    used: int       # of them in one file


# Modelled on checkouts of tokio-rs/axum, django/django and rust-lang/rust.
SHAPES = {
    "small": Shape(files=498, folders=189, bytes=1_900_000, spread=1.4, novelty=0.7, echo=0.06, names=600, used=40),
    "medium": Shape(files=7_081, folders=3_275, bytes=46_800_000, spread=1.45, novelty=0.7, echo=0.045, names=700, used=60),
    "large": Shape(files=62_158, folders=4_697, bytes=194_500_000, spread=1.9, novelty=0.9, echo=0.083, names=400, used=20),
}

WORDS = """account action add address agent all alloc apply array async at back base batch begin bind block body bool
borrow bound branch buffer build byte cache call cell chain change char check child chunk clear client clone close code
collect column commit compare config connect context copy core count create current cursor data date decode default
define delete delta depth detail digest dir drop edge emit empty encode end entry error event exit expand expect export
extend fail fetch field file fill filter find first flag flush fold format frame from get global group guard handle hash
head header id import index info init inner insert into invalid item iter join journal key kind label last layer len
level limit line link list load local lock log loop main make map mask match max merge message meta method min mode
module move name next node none note object offset old open option order outer owner pack page parent parse part patch
path pattern peek pending pick plan point poll pool pop port prefix prepare print probe process push query queue range
raw read ready record ref region release remove render replace report request reserve reset resolve response rest result
retry return root route row run save scan scope score seal search segment select send sequence session set shape share
shift show side sign signal size skip slice slot sort source span spawn split stack stage start state status step stop
store stream string strip sub swap symbol sync table tag tail take target task temp test text thread tick time token
total trace track tree trim try type union unit unlock until update usage use user valid value verify version view visit
wait walk weight window word work wrap write zone""".split()

CODE = (
    "    let {0} = {1}.{2}({3});\n", "    if {0}.{1}() > {n} {{\n", "        return Err({0}::{1}({2}));\n", "    }}\n", "\n",
    "pub fn {0}({1}: &{2}, {3}: usize) -> Option<{2}> {{\n", "}}\n", "    {0}.{1}.push({2}.{3}()?);\n",
    "    for {0} in {1}.iter().filter(|{2}| {2}.{3}()) {{\n", "        self.{0}.insert({1}, {2}::new({3}));\n",
    "    // the {0} of a {1} is known before its {2}: {3}\n", "    assert_eq!({0}({1}), {n}, \"{2} of {3}\");\n",
    "use crate::{0}::{{{1}, {2}}};\n", "    def {0}(self, {1}, {2}=None):\n", "        self.{0} = {1}.{2}({3}, \"{0}\")\n",
    "        raise {0}Error(\"{1} {2}: %s\" % {3})\n", "    #[test]\n", "    const {0}: u64 = {x};\n",
)
PROSE = (
    "The {0} of the {1} is {2} when its {3} has been seen.\n", "- `{0}`: what the {1} says about {2} ({n})\n", "\n",
    "## {0} and {1}\n", "See `{2}` in {0}/{1}.md for the {3}.\n", "| {0} | {1} | {n} | {2} {3} |\n",
    "    $ {0} --{1} {2} {3}\n",
)
DATA = (
    "  \"{0}\": {{\"{1}\": \"{2}\", \"{3}\": {n}}},\n", "msgid \"{0} {1} {2}\"\n", "msgstr \"{3} {1} {0}\"\n", "\n",
    "#: {0}/{1}.py:{n}\n", "{0} = \"{1}\"\n", "[{0}.{1}]\n", "    - {0}: {1} {2} {x}\n",
)
KINDS = ((".rs", CODE, 44), (".py", CODE, 24), (".md", PROSE, 8), (".po", DATA, 9), (".json", DATA, 6), (".toml", DATA, 5),
         (".txt", PROSE, 3))
FOLDERS = ("src", "tests", "ui", "docs", "core", "util", "locale", "forms", "views", "models", "macros", "traits", "codegen",
           "parser")


class Writer:
    """Text of one package: its own vocabulary, its own stock of lines that its files share."""

    def __init__(self, rng, shape):
        self.random = rng.random
        self.shape = shape
        self.names = [self.name() for _ in range(shape.names)]
        self.used = self.names
        self.stock = {id(lines): [self.line(lines) for _ in range(400)] for _, lines, _ in KINDS}

    def name(self):
        words = [WORDS[int(self.random() * len(WORDS))] for _ in range(1 + int(self.random() * 2.6))]
        return "_".join(words) if self.random() < 0.7 else "".join(w.title() for w in words)

    def line(self, templates):
        r, names = self.random, self.used
        # squared: a few names are everywhere, most are rare
        pick = [names[int(r() ** 2 * len(names))] for _ in range(4)]
        return templates[int(r() * len(templates))].format(*pick, n=int(r() ** 3 * 4000), x=hex(int(r() * 2**32)))

    def text(self, templates, size):
        start = int(self.random() * len(self.names))
        self.used = (self.names * 2)[start:start + self.shape.used]
        stock, r, novelty, echo = self.stock[id(templates)], self.random, self.shape.novelty, self.shape.echo
        lines, length = [], 0
        while length < size:
            if lines and r() < echo:
                start = int(r() * len(lines))
                more = lines[start:start + 1 + int(r() * 6)]
            else:
                more = (self.line(templates) if r() < novelty else stock[int(r() ** 2 * len(stock))],)
            lines.extend(more)
            length += sum(map(len, more))
        return "".join(lines)[:size - 1] + "\n"


def folders_of(shape, rng):
    """Paths of all folders, parents first. Few at the top, most three to six deep."""
    paths = [""]
    while len(paths) < shape.folders:
        parent = paths[int(rng.random() ** 1.3 * len(paths))]
        if parent.count("/") < 6:
            name = FOLDERS[int(rng.random() * len(FOLDERS))] if rng.random() < 0.4 else WORDS[int(rng.random() * len(WORDS))]
            paths.append(f"{parent}{name}{len(paths)}/")
    return paths


def sizes_of(shape, rng):
    """Log-normal, as source files are, scaled to the wanted total."""
    raw = [min(rng.lognormvariate(0, shape.spread), 150) for _ in range(shape.files)]
    scale = shape.bytes / sum(raw)
    return [max(40, int(size * scale)) for size in raw]


def counts_of(shape, folders, rng):
    """How many files each folder holds: most a few, some of a large tree more than a thousand, the last ones none."""
    empty = 2 + len(folders) // 500
    weights = [rng.paretovariate(1.1) for _ in folders[empty:]]
    limit = sum(weights) * 0.02
    weights = [min(weight, limit) for weight in weights]
    scale, counts, carried = (shape.files - len(weights)) / sum(weights), [], 0.0
    for weight in weights:
        carried += weight * scale
        counts.append(1 + int(carried))
        carried -= int(carried)
    counts[0] += shape.files - sum(counts)
    return counts + [0] * empty


def generate(shape, root):
    rng = random.Random(f"rappel {shape.files}")
    folders = folders_of(shape, rng)
    sizes, counts = sizes_of(shape, rng), counts_of(shape, folders, rng)
    kinds = [kind for kind in KINDS for _ in range(kind[2])]
    packages, number = {}, 0
    for folder in folders:
        os.makedirs(root / folder, exist_ok=True)
    for folder, count in sorted(zip(folders, counts)):
        package = "/".join(folder.split("/")[:2])
        writer = packages.get(package) or packages.setdefault(package, Writer(rng, shape))
        for _ in range(count):
            write_file(writer, rng, root / folder, number, sizes[number], kinds)
            number += 1
    (root / ".gitignore").write_text("*.log\n*.tmp\n/out/\n__pycache__/\n")
    (root / "LATEST.md").symlink_to("README.md")
    (root / "README.md").write_text("# A tree to measure with\n")


def write_file(writer, rng, folder, number, size, kinds):
    suffix, templates, _ = kinds[int(rng.random() * len(kinds))]
    name = f"{WORDS[int(rng.random() * len(WORDS))]}_{number}{suffix}"
    if number % 150 == 7:
        (folder / f"image_{number}.png").write_bytes(rng.randbytes(min(size, 20_000)))
        return
    text = writer.text(templates, size)
    if number % 400 == 11:
        text = text.replace("\n", "\r\n")
    path = folder / name
    path.write_bytes(text.encode())
    if number % 200 == 3:
        path.chmod(0o755)


def tree(work, name):
    """The generated tree of that name, made if it is not there yet."""
    root, stamp = work / "trees" / name, work / "trees" / f"{name}.json"
    shape = SHAPES[name]
    want = {"version": VERSION, **shape.__dict__}
    if stamp.exists() and json.loads(stamp.read_text()) == want:
        return root
    for old in (root, repository_of(root)):
        subprocess.run(["rm", "-rf", old], check=True)
    # in a process of its own: the peak memory of this one is the least that a measured one can show
    maker = multiprocessing.Process(target=generate, args=(shape, root))
    maker.start()
    maker.join()
    if maker.exitcode != 0:
        raise RuntimeError(f"the tree {name} was not made")
    stamp.write_text(json.dumps(want))
    return root


def checkout(work, source):
    """A copy of a real checkout: what git would list where it is a repository, everything otherwise."""
    root = work / "trees" / f"checkout-{source.name}"
    if root.exists():
        return root
    root.mkdir(parents=True)
    if (source / ".git").exists():
        listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                check=True, capture_output=True).stdout
        there = [path for path in listed.split(b"\0") if os.path.isfile(os.path.join(os.fsencode(source), path))]
        paths = b"".join(path + b"\0" for path in there)
        pack = ["tar", "-C", source, "--null", "--no-recursion", "-T", "-", "-c"]
    else:
        paths, pack = b"", ["tar", "-C", source, "--exclude-vcs", "-c", "."]
    with subprocess.Popen(pack, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packing:
        unpacking = subprocess.Popen(["tar", "-C", root, "-x"], stdin=packing.stdout)
        packing.stdout.close()
        packing.stdin.write(paths)
        packing.stdin.close()
        if packing.wait() != 0 or unpacking.wait() != 0:
            raise RuntimeError(f"{source} could not be copied")
    return root


def repository_of(tree):
    return tree.with_name(f"{tree.name}.git")


def repository(tree):
    """A packed git repository that holds the whole tree, for tools that work in the user's own."""
    store = repository_of(tree)
    if not (store / "index").exists():
        env = {**os.environ, "GIT_DIR": str(store), "GIT_WORK_TREE": str(tree)}
        settings = {"gc.auto": "0", "maintenance.auto": "false", "user.name": "b", "user.email": "b@b"}
        # `init` writes down this tree's place, which would make every copy work on the original
        for command in (["init", "-q"], ["config", "--unset", "core.worktree"],
                        *(["config", *setting] for setting in settings.items()),
                        ["add", "-A", "-f"], ["commit", "-q", "-m", "tree"], ["gc", "-q", "--prune=now"]):
            subprocess.run(["git", *command], cwd=tree, env=env, check=True)
    return store


def about(tree):
    """Its size, and the class whose limits hold for it."""
    files = folders = size = 0
    for folder, _, names in os.walk(tree):
        folders += 1
        files += len(names)
        size += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    kind = "small" if files < 3_000 else "medium" if files < 25_000 else "large"
    return {"files": files, "folders": folders, "bytes": size, "class": kind}


def room(about, runs, loose):
    """(bytes, inodes) that a tool needs at most for its stores and copies, since nothing is deleted."""
    size, entries = about["bytes"] + 2_500 * about["files"], about["files"] + about["folders"]
    stores = (runs + 2) * (size if loose else about["bytes"] // 2)
    return (256 << 20) + (runs + 2) * size + stores, 20_000 + (runs + 2) * entries * (2 if loose else 1)
