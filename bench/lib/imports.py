"""`rappel import` of a thousand checkpoints of each form, against `cp -r` of them and one fdatasync for each."""
import datetime
import io
import json
import os
import shutil
import subprocess
import tarfile
import time

from process import run

CHECKPOINTS = 1_000
FORMS = ("lugh", "loki", "forge", "caf", "aiwg")
BEGAN = datetime.datetime(2026, 2, 12, tzinfo=datetime.UTC)


def moment(number):
    return BEGAN + datetime.timedelta(minutes=number)


def dump(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))


def lugh(root):
    """A small repository's bundle, a dump and two work-tree files in each; returns a file of each checkpoint."""
    project, files = root / "repository", []
    project.mkdir(parents=True)
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-C", project]
    (project / "a.txt").write_text("hello\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"],
                  ["bundle", "create", "-q", root / "all.bundle", "--all"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    bundle = (root / "all.bundle").read_bytes()
    shutil.rmtree(project)
    (root / "all.bundle").unlink()
    for number in range(CHECKPOINTS):
        name = f"chk_{moment(number):%Y%m%d_%H%M%S}"
        folder = root / name
        dump(folder / "checkpoint.json", {
            "id": name, "created_at": f"{moment(number):%Y-%m-%dT%H:%M:%SZ}", "trigger": "manual",
            "description": f"number {number}", "environment": "staging",
            "git": {"branch": "main", "commit": commit, "dirty_files": [],
                    "worktrees": [{"name": "issue-42", "branch": "main", "path": "/srv/worktrees/issue-42"}]},
            "agents": {"active_count": 0, "sessions": []}, "knowledge": {"projects": [], "document_count": 0}})
        (folder / "git_bundle.bundle").write_bytes(bundle)
        with tarfile.open(folder / "worktrees.tar.gz", "w:gz", compresslevel=1) as tar:
            for file in range(2):
                member = tarfile.TarInfo(f"srv/worktrees/issue-42/f{file}.txt")
                text = f"{number} {file}\n".encode() * 40
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
        dump(folder / "agent_states.json", [])
        dump(folder / "knowledge_index.json", {"projects": [], "document_count": 0, "documents": []})
        files.append(folder / "checkpoint.json")
    return files


def loki(root):
    files, index = [], []
    for number in range(CHECKPOINTS):
        name = f"cp-{moment(number):%Y%m%d-%H%M%S}"
        folder = root / name
        metadata = {"id": name, "timestamp": f"{moment(number):%Y-%m-%dT%H:%M:%SZ}", "message": f"number {number}",
                    "git_sha": f"{number:040x}", "git_branch": "main", "iteration": number, "provider": "claude"}
        dump(folder / "metadata.json", metadata)
        dump(folder / "session.json", {"iteration": number, "phase": "build", "notes": "x" * 400})
        dump(folder / "dashboard-state.json", {"tasks": [f"task {number}"] * 20})
        for queue in ("pending", "completed", "in-progress"):
            dump(folder / "queue" / f"{queue}.json", [{"id": f"{queue}-{number}-{item}"} for item in range(10)])
        index.append(json.dumps({"id": name, "ts": metadata["timestamp"], "sha": metadata["git_sha"]}))
        files.append(folder / "metadata.json")
    (root / "index.jsonl").write_text("\n".join(index) + "\n")
    return files


def forge(root):
    checkpoints, hypotheses = [], []
    for number in range(CHECKPOINTS):
        at = f"{moment(number):%Y-%m-%dT%H:%M:%SZ}"
        if number % 20 == 0:
            hypotheses = [*hypotheses, {"id": f"h{number}", "text": f"guess {number}", "status": "Open", "confidence": 0.5}]
        common = {"id": f"forge-{number:04}", "timestamp": at, "sequence": number, "message": f"number {number}",
                  "tags": ["bench"], "trigger": {"Automatic": "GapFilled"}}
        state = {"session_id": "bench", "started_at": f"{BEGAN:%Y-%m-%dT%H:%M:%SZ}", "hypotheses": hypotheses,
                 "evidence": [], "beliefs": [], "belief_dependencies": [], "gaps": [], "verification_results": [],
                 "current_branch": "main", "branches": [], "notes": [], "code_changes": None, "command_history": [],
                 "metrics": {"checkpoints_created": number, "hypotheses_tested": 0, "verifications_run": 0,
                             "gaps_filled": 0, "time_in_debugging": {"secs": number, "nanos": 0}}}
        checkpoints.append({"Full": {**common, "state": state}})
    dump(root / "session.json", {"session_id": "bench", "checkpoints": checkpoints})
    return [root / "session.json"] * CHECKPOINTS


def caf(root):
    files, thoughts = [], []
    for number in range(CHECKPOINTS):
        at = int(moment(number).timestamp() * 1000)
        if number % 20 == 0:
            thoughts = [*thoughts, {"id": f"thought_{number}", "type": "reasoning", "content": f"thought {number}",
                                    "confidence": 0.5, "created_at": at}]
        path = root / f"ckpt_{number:04}.json"
        dump(path, {"version": "0.0.1", "id": path.stem, "timestamp": at, "execution_id": "exec_bench",
                    "agent_id": "bench",
                    "snapshot": {"thought_chain": thoughts,
                                 "context": {"variables": {"task": "bench"}, "state": {}, "history": []},
                                 "tool_state": {"calls": [], "results": {}},
                                 "progress": {"step_number": number, "total_thoughts": len(thoughts), "total_tool_calls": 0}},
                    "metadata": {"step_number": number, "tokens_used": number, "duration_ms": number,
                                 "checkpoint_reason": "thought_completed"}})
        files.append(path)
    return files


def aiwg(root):
    files = []
    for number in range(1, CHECKPOINTS + 1):
        path = root / "checkpoints" / f"{number:03}-checkpoint.json"
        dump(path, {"number": number, "timestamp": f"{moment(number):%Y-%m-%dT%H:%M:%S.000Z}", "duration": number * 60_000,
                    "sessionId": "bench",
                    "gitStatus": {"branch": "main", "modified": [f"f{number}.rs"], "untracked": [], "staged": []},
                    "aiwgState": {"files": ["a.md"], "sizes": {"a.md": number}},
                    "filesModified": [f"f{item}.rs" for item in range(number % 50)],
                    "memory": {"heapUsed": 1 << 20, "rss": 1 << 24}})
        files.append(path)
    return files


def copied(source, files, target):
    """Milliseconds of `cp -r`, and of one write and fdatasync for each checkpoint."""
    start = time.perf_counter()
    subprocess.run(["cp", "-r", source, target], check=True)
    for file in files:
        handle = os.open(target / file.relative_to(source), os.O_WRONLY)
        os.pwrite(handle, b" ", os.fstat(handle).st_size)
        os.fdatasync(handle)
        os.close(handle)
    return (time.perf_counter() - start) * 1e3


def measure(rappel, root, runs, say):
    """Rows by name: `import_FORM` and `copy_FORM`, in turn, each import into a home of its own."""
    rows = {}
    for form in FORMS:
        source = root / form
        files = globals()[form](source)
        ours, bare = [], []
        for number in range(runs):
            bare.append(copied(source, files, root / f"{form}.{number}"))
            project = root / f"{form}.{number}.project"
            project.mkdir()
            (project / "rappel.toml").write_text("")
            environment = {**os.environ, "RAPPEL_HOME": str(root / f"{form}.{number}.home"), "HOME": str(root)}
            what = files[0] if form == "forge" else source
            cost, answer = run([rappel, "import", what, "--format", form, "--json"], project, environment)
            imported = json.loads(answer)["imported"]
            if imported != CHECKPOINTS:
                raise SystemExit(f"{form}: {imported} of {CHECKPOINTS} checkpoints were imported: {answer[:600]}")
            ours.append(cost.ms)
        rows[f"import_{form}"], rows[f"copy_{form}"] = {"ms": ours}, {"ms": bare}
        say(f"{form}: {min(ours):.0f} ms, copied in {min(bare):.0f} ms")
    return rows
