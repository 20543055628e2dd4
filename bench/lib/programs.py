"""The programs that are measured: found where they are installed, else built or installed from their registries."""
import json
import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Versions are pinned so that two people measure the same; cargo ones are installed below bench/work.
CARGO = {
    "jj": ["jj-cli@0.45.1"],
    "rustic": ["rustic-rs@0.11.4", "--no-default-features"],
    "savestate": ["savestate@0.1.2"],
}
LANGGRAPH = "langgraph-checkpoint-sqlite==3.1.2"
APT = {"git": "git", "restic": "restic", "borg": "borgbackup"}


def folders(work):
    """Where peers are looked for, before PATH."""
    named = os.environ.get("RAPPEL_BENCH_PEERS")
    return ([Path(named), Path(named) / "bin"] if named else []) + [work / "peers" / "bin"]


def find(program, work):
    path = os.pathsep.join([*map(str, folders(work)), os.environ.get("PATH", "")])
    found = shutil.which(program, path=path)
    return Path(found) if found else None


def peer(program, work):
    """The path of a peer's program; installs it where it is missing."""
    if found := find(program, work):
        return found
    if program in CARGO:
        command = ["cargo", "install", "--locked", "--root", work / "peers", *CARGO[program]]
    else:
        command = ["apt-get", "install", "-y", "--no-install-recommends", APT[program]]
    print(f"installing {program}: {' '.join(map(str, command))}", flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if found := find(program, work):
        return found
    raise RuntimeError(f"{program} was installed but is not found")


def langgraph(work):
    """A Python that has LangGraph's checkpointer; `None` where it cannot be installed."""
    folder = work / "peers" / "langgraph"
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run(["python3", "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", LANGGRAPH], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"LangGraph is not measured: {error}", flush=True)
        return None
    return python


def version(program):
    """The first line that it says about itself."""
    for flag in ("--version", "version"):
        said = subprocess.run([program, flag], capture_output=True, text=True, check=False)
        if said.returncode == 0 and said.stdout.strip():
            return said.stdout.strip().splitlines()[0].split(" compiled")[0]
    return "unknown"


def build_rappel():
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "rappel-cli"], cwd=REPOSITORY, check=True)
    said = subprocess.run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=REPOSITORY,
                          check=True, capture_output=True, text=True)
    return Path(json.loads(said.stdout)["target_directory"]) / "release" / "rappel"


def build_floor(work):
    return build_beside(work, "floor")


def build_session(work):
    return build_beside(work, "session")


def build_age(work):
    return build_beside(work, "age")


def build_serve(work):
    return build_beside(work, "serve")


def build_beside(work, name):
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path",
                    REPOSITORY / "bench" / name / "Cargo.toml", "--target-dir", work / "target"], check=True)
    return work / "target" / "release" / f"rappel-bench-{name}"
