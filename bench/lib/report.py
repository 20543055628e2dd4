"""Results as Markdown."""
from pathlib import Path
from statistics import median

import limits

RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"
NOTES = "## Where the time goes"

TIMES = {
    "first": "first save",
    "noop": "save, nothing changed",
    "git_noop": "save, nothing changed, with git",
    "git_noop_without": "the same with `--skip git`",
    "git_commit": "save after one new commit",
    "git_commit_without": "the same with `--skip git`",
    "git_first": "first save, with git",
    "git_first_without": "the same with `--skip git`",
    "git_bundle": "`git bundle create --all`",
    "guard": "`guard` before a destructive command",
    "tick": "tick of `run`, nothing changed",
    "delta": "save, 10 changed + 2 new",
    "after_restore": "the same right after a restore",
    "restore": "restore of those in place",
    "restore_unsaved": "restore in place of unsaved changes",
    "full": "full restore elsewhere, synced",
    "compact": "compaction after the small saves",
    "show": "`show`",
    "diff": "`diff` of neighbours",
}
CPU = {"first": "first save", "noop": "nothing changed", "delta": "10 changed + 2 new", "restore": "restore in place"}
SIZES = {
    "size_first": ("store after the first save, MB", 1e6),
    "growth": ("added per small save, KB", 1e3),
    "size_saves": ("store after the small saves, MB", 1e6),
    "size_compact": ("the same compacted, MB", 1e6),
}


DATABASES = {
    "postgres": {
        "first": "first save",
        "pg_dump": "`pg_dump > /dev/null` beside it",
        "save_accounts_together": "save, 1 % of pgbench's rows changed, together",
        "save_accounts_scattered": "the same, scattered",
        "save_texts_together": "save, 1 % of rows of random text changed, together",
        "save_texts_scattered": "the same, scattered",
        "pg_dump_changed": "`pg_dump > /dev/null` beside these",
    },
    "sqlite": {
        "first": "first save",
        "backup": "`sqlite3 .backup` beside it",
        "save_pages_together": "save, 1 % of the rows changed, together",
        "save_pages_scattered": "the same, scattered",
        "backup_changed": "`sqlite3 .backup` beside these",
    },
}
UNCHANGED = {"unchanged": "save, nothing changed", "unchanged_without": "the same with `--skip databases`"}


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def time_cell(row, runs, spread):
    if not row:
        return "–"
    times = row["ms"]
    text = number(median(times))
    if spread:
        text = f"**{text}** ({number(min(times))}–{number(max(times))})"
    return text + (f" n={len(times)}" if 1 < len(times) < runs else "")


def cpu_cell(row):
    return number(median(row["cpu_ms"])) if row and "cpu_ms" in row else "–"


def size_cell(row, unit):
    return f"{number(row[0] / unit)} ({number(row[1] / unit)})" if row else "–"


def table(name, tree, runs):
    columns = {key: column for key, column in tree["columns"].items() if "error" not in column}
    head = [f"| {name} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    lines = []
    for key, label in TIMES.items():
        cells = [time_cell(column.get(key), runs, kind.startswith("rappel")) for kind, column in columns.items()]
        lines.append((label, cells))
    for key, label in CPU.items():
        lines.append((f"CPU time: {label}", [cpu_cell(column.get(key)) for column in columns.values()]))
    for key, (label, unit) in SIZES.items():
        lines.append((label, [size_cell(column.get(key), unit) for column in columns.values()]))
    counts = {"small saves made": lambda column: str(len(column["delta"]["ms"])),
              "peak memory, MB": lambda column: number(column["memory"] / 1e6)}
    for label, count in counts.items():
        lines.append((label, [count(column) if "memory" in column else "–" for column in columns.values()]))
    body = [f"| {label} | " + " | ".join(cells) + " |" for label, cells in lines if set(cells) != {"–"}]
    return "\n".join(head + body)


def remarks(tree):
    """What a tool did not bring back, and what failed."""
    said = []
    for name, column in tree["columns"].items():
        if "error" in column:
            said.append(f"{name}: not measured: {column['error']}")
        if column.get("restore_wrong"):
            said.append(f"{name}: {column['restore_wrong']} files had wrong content after restores in place")
        if column.get("restore_left"):
            said.append(f"{name}: its restore in place left the added files there ({column['restore_left']} over all runs)")
        if column.get("full_lost") or column.get("full_changed"):
            said.append(f"{name}: the full restore lost {column['full_lost']} paths and changed {column['full_changed']}")
    return "\n".join(f"- {line}" for line in said)


def markdown(results):
    about = results["about"]
    parts = [
        "# Results",
        f"`{about['command']}`, {about['date']}, measured at {about['commit']}.\n\n{about['machine']}. "
        f"File system: {about['disk']}. Load when it began: {about['load']}.\n\nPeers: {', '.join(about['versions'])}.",
        f"Milliseconds, medians of {about['runs']} runs (`n=` where a slow peer got fewer), process start included, caches "
        "warm; Rappel with (fastest–slowest). Sizes are bytes on disk (apparent bytes), index and its WAL included, "
        "caches and reserve not. The full restore ends with `syncfs` for every tool. The floor is bench/floor: process "
        f"start plus the bare work. Peak memory cannot show less than the {about['harness_mb']} MB of the harness.",
    ]
    for name, tree in results["trees"].items():
        parts.append(f"## {name}: {tree['files']:,} files, {tree['folders']:,} folders, {tree['bytes'] / 1e6:.1f} MB")
        parts.append(table(name, tree, about["runs"]))
        if said := remarks(tree):
            parts.append(said)
    if history := results.get("history"):
        parts.append("## Many checkpoints" + (f"\n\nnot measured: {history['error']}" if "error" in history else ""))
        if "error" not in history:
            parts.append(history_table(history, about["runs"]))
    if found := results.get("databases"):
        parts.append("## Databases")
        parts.append("A tiny project with one database. Every round begins with a new home; bytes added are those of the round "
                     "with the largest share. Changed bytes are those of the changed rows' lines in the dump, for SQLite of the changed pages.")
        parts.extend(database_table(name, rows) for name, rows in found.items())
    if rows := results.get("sessions"):
        parts.append("## Agents' sessions")
        parts.append("A step is one thought of 1 KB and the checkpoint of agent state that it makes, durable when it returns; one writer, "
                     "through the library. The append is 2 KB with fdatasync. The commands are whole processes in a home with "
                     f"{rows['events']:,} events, a tenth of them hypotheses.")
        parts.append(session_table(rows))
    if rows := results.get("past"):
        parts.append("## A long past")
        parts.append(f"Whole processes in a home with 1,000 checkpoints and as many deleted ones, and in one with {rows['checkpoints']:,} of each, "
                     "in turn. The deleted ones are not collected yet.")
        parts.append(past_table(rows))
    if found := results.get("hooks"):
        parts.append("## Agents' hooks")
        parts.append("Whole processes in a git work tree with 8,000 files, each told one event that is durable when it ends, in turn with "
                     "`git --no-optional-locks status --porcelain` of the same state. Times of git's time are in brackets.")
        for agent, surroundings in found.items():
            parts.append(f"### {agent}")
            parts.append(hooks_table(surroundings))
    if rows := results.get("at_once"):
        parts.append("## Saves at once")
        parts.append("Fifty processes save one workspace of 8,000 files at once, after twelve of them were edited. One save and "
                     f"`show` are measured in turn with them. At most {rows['captures'][0]} captures were made.")
        times = {"save": "one save", "fifty_shows": "fifty times `show`", "at_once": "fifty saves at once"}
        lines = [f"| {label} | {time_cell(rows[key], 0, True)} |" for key, label in times.items()]
        parts.append("| | ms |\n|---|---:|\n" + "\n".join(lines))
    if rows := results.get("imports"):
        parts.append("## Imports")
        parts.append("A thousand checkpoints of each form, imported in one go into a new home, in turn with `cp -r` of the same and one "
                     "fdatasync for each checkpoint.")
        forms = [key.removeprefix("import_") for key in rows if key.startswith("import_")]
        lines = [f"| {form} | {time_cell(rows[f'import_{form}'], 0, True)} | {time_cell(rows[f'copy_{form}'], 0, True)} |" for form in forms]
        parts.append("| | import, ms | copy, ms |\n|---|---:|---:|\n" + "\n".join(lines))
    if rows := results.get("serve"):
        parts.append("## A process that lives")
        parts.append(f"A home with {rows['checkpoints']:,} checkpoints. Through one handle of the library, and {rows['requests']:,} requests to "
                     "`rappel serve` on eight connections: the list and one checkpoint in turn, from the same machine.")
        parts.append(serve_table(rows))
    if rows := results.get("page"):
        parts.append("## The dashboard")
        parts.append(f"The timeline in Chromium, in a home with {rows['checkpoints']:,} checkpoints, without the browser's cache. It is "
                     "interactive when it has drawn the answer to a key. A scroll passes 300 frames of 400 pixels.")
        times = {"rows_shown": "the first rows are shown", "interactive": "interactive",
                 "frame_p95_loading": "95 % of frames, while older checkpoints load", "frame_p95": "95 % of frames"}
        lines = [f"| {label} | {time_cell(rows[key], 0, True)} |" for key, label in times.items()]
        parts.append("| | ms |\n|---|---:|\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def serve_table(rows):
    lines = {
        "`list` of 20 in one process, ms": f"{rows['list_in_process']:.2f}",
        "the same with a look at the world before, ms": f"{rows['list_with_open']:.2f}",
        "mixed reads a second by two threads, beside one writer": f"{1000 / rows['mixed_read']:,.0f}",
        "saves a second of that writer": f"{rows['mixed_saves_per_s']:,.0f}",
        "requests a second": f"{1000 / rows['request']:,.0f}",
        "p50 and p99 at 500 requests a second, ms": f"{rows['paced_p50']:.1f}, {rows['paced_p99']:.1f}",
        "p99 under full load, ms": f"{rows['load_p99']:.1f}",
        "memory after the first and the last tenth, MB": f"{rows['memory_first'] / 1e6:.1f}, {rows['memory'] / 1e6:.1f}",
    }
    return "| | |\n|---|---:|\n" + "\n".join(f"| {label} | {figure} |" for label, figure in lines.items())


def hooks_table(found):
    labels = {"post": ("Post, nothing changed", "git"), "pre": ("Pre, nothing changed", "git"), "prompt": ("prompt", "git"),
              "post_changed": ("Post, 12 files changed", "git_changed"), "pre_changed": ("Pre, 12 files changed", "git_changed"),
              "git": ("git's status", None), "git_changed": ("git's status, 12 files changed", None),
              "status_short": ("`status --short`", None)}

    def cell(rows, key, git):
        against = f" [{limits.value(rows[key]) / limits.value(rows[git]):.2f}]" if git else ""
        return time_cell(rows[key], 0, True) + against

    lines = [f"| {label} | " + " | ".join(cell(rows, key, git) for rows in found.values()) + " |"
             for key, (label, git) in labels.items()]
    head = {"files": "8,000 files", "postgres": "200 MB of PostgreSQL configured", "transcripts": "a 200 MB transcript grows, 2,000 old ones"}
    return f"| | {' | '.join(head[name] for name in found)} |\n|---|" + "---:|" * len(found) + "\n" + "\n".join(lines)


def past_table(rows):
    labels = {"save": "`save`", "undo": "`undo` of a restore", "back": "`undo` to the checkpoint before",
              "due": "`save` after a `delete`: when is gc due?", "name": "`show latest~3`"}
    lines = [f"| {label} | {time_cell(rows[f'short_{key}'], 0, True)} | {time_cell(rows[f'long_{key}'], 0, True)} | "
             f"{limits.value(rows[f'long_{key}']) / limits.value(rows[f'short_{key}']):.2f} |" for key, label in labels.items()]
    return f"| | 1,000, ms | {rows['checkpoints']:,}, ms | times |\n|---|---:|---:|---:|\n" + "\n".join(lines)


def session_table(rows):
    times = {"save": "one save of 1,000", "append": "one append with fdatasync", "latest": "the latest state, 1 MB of it",
             "earlier": "an earlier state", "at": "`at now`", "recall": "`recall`", "find_text": "`find --text`",
             "find_tool": "`find --tool`, 20,000 hits", "report": "`report` of 500 prompts",
             "line": "a command line of 10 KB judged", "line_dense": "one that is nothing but commands"}
    lines = [f"| {label} | {time_cell(rows[key], 0, True)} |" for key, label in times.items() if key in rows]
    sizes = {"size": "home after 1,000 saves, MB", "events_size": "home with the many events, MB",
             "memory": "peak memory of the commands, MB", "memory_recording": "peak memory of recording them, MB"}
    lines += [f"| {label} | {number(rows[key] / 1e6)} |" for key, label in sizes.items()]
    lines += [f"| saves a second | {1000 / limits.value(rows['save']):,.0f} |", f"| the last saves against the first | {rows['growth']:.2f} |",
              f"| events recorded a second | {rows['events_per_s']:,.0f} |"]
    if peer := rows.get("langgraph"):
        lines += [f"| LangGraph's SQLite checkpointer, the same growth: saves a second | {peer['saves_per_s']:,.0f} |",
                  f"| LangGraph: on disk, MB | {number(peer['bytes'] / 1e6)} |",
                  f"| LangGraph: the latest state | {number(peer['latest_ms'])} |"]
    return "| a session | ms |\n|---|---:|\n" + "\n".join(lines)


def database_table(name, rows):
    def times(key):
        return f"{time_cell(rows[key], 0, True)} | {cpu_cell(rows[key])} | {number(rows[key]['peak_kb'] * 1024 / 1e6)}"

    def share(key):
        return f"{number(rows[f'{key}_added'] / 1e3)} | {number(rows[f'{key}_raw'] / 1e3)} | {rows[f'{key}_share']:.1%}"

    labels = DATABASES[name]
    head = f"| {name}, {rows['bytes'] / 1e6:.0f} MB | ms | CPU ms | peak MB |\n|---|---:|---:|---:|\n"
    lines = [f"| {label} | {times(key)} |" for key, label in {**labels, **UNCHANGED}.items()]
    sizes = f"\n\n| {name}, KB | added | changed | share |\n|---|---:|---:|---:|\n"
    saves = [key.removeprefix("save_") for key in labels if key.startswith("save_")]
    more = [f"| {key.replace('_', ', ')} | {share(key)} |" for key in saves]
    more.append(f"| nothing changed | {number(rows['unchanged_added'] / 1e3)} | 0 | – |")
    return head + "\n".join(lines) + sizes + "\n".join(more)


def history_table(history, runs):
    rows = {"list": "`list`", "list_json": "`list --json`", "list_all": "`list N --json`, all of them",
            "show": "`show`", "diff": "`diff` of neighbours"}
    head = f"| a home with {history['checkpoints']:,} checkpoints | ms |\n|---|---:|\n"
    body = "\n".join(f"| {label} | {time_cell(history[key], runs, True)} |" for key, label in rows.items())
    return head + body + f"\n| size of the home, MB | {size_cell(history['home'], 1e6)} |"


def write(results):
    """RESULTS.md; what a person wrote below its last heading stays."""
    old = RESULTS.read_text() if RESULTS.exists() else ""
    notes = old[old.index(NOTES):] if NOTES in old else NOTES + "\n\nNot written yet.\n"
    judged = [f"- {state}: {text}" for state, text in limits.check(results) if state != "skipped"]
    RESULTS.write_text(markdown(results) + "\n## Limits\n\n" + "\n".join(judged) + "\n\n" + notes)
