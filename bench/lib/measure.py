"""All measurements of one tool on one tree, in an order in which none disturbs the next.

Each is a generator that stops before every single run and names the row it is about to run. `interleave` lets the tools
take turns, run by run: what else happens on the machine meanwhile hits all of them alike, and ratios stay true.
"""
import os
import shutil
import subprocess
import time

import changes
import disk

# Heavy rows last: what they leave in the caches would disturb the fine ones.
ORDER = ["first", "noop", "git_noop", "git_commit", "git_first", "guard", "tick", "delta", "show", "diff", "restore", "restore_unsaved", "full", "compact", "list"]


class Plan:
    """How often, and for how long."""

    def __init__(self, runs, saves, patience, checkpoints):
        self.runs, self.saves, self.patience, self.checkpoints = runs, saves, patience, checkpoints

    def repeat(self, row, work, runs=None, patience=None):
        """The costs of up to `runs` calls; fewer once they took longer than patience allows, but never very few."""
        costs, spent, least = [], 0.0, 3 if self.patience else self.runs
        patience = self.patience or patience
        for number in range(runs or self.runs):
            yield row
            disk.sync()
            start = time.monotonic()
            costs.append(work(number))
            spent += time.monotonic() - start
            if patience and len(costs) >= least and spent > patience:
                break
        return costs

    def row(self, row, work, runs=None, patience=None):
        return series((yield from self.repeat(row, work, runs, patience)))


def series(costs):
    """What is kept of a row: every run, in order."""
    return {"ms": [round(cost.ms, 3) for cost in costs], "cpu_ms": [round(cost.cpu_ms, 1) for cost in costs],
            "peak_kb": max(cost.peak_kb for cost in costs)}


def interleave(columns, say):
    """{name: result} of {name: generator}. One tool's failure ends its column, not the others."""
    results, waiting, order = {}, {}, []

    def go_on(name):
        try:
            waiting[name] = next(columns[name])
        except StopIteration as end:
            results[name] = end.value
            waiting.pop(name, None)
        except Exception as problem:
            results[name] = {"error": f"{type(problem).__name__}: {problem}"[:800]}
            waiting.pop(name, None)
            say(f"{name}: {results[name]['error']}")

    for name in columns:
        go_on(name)
    while waiting:
        row = min(waiting.values(), key=ORDER.index)
        if row not in order:
            order.append(row)
            say(row)
        for name in [name for name, next_row in waiting.items() if next_row == row]:
            go_on(name)
    return results


def place(source, repository, root, needs_git):
    """A copy of the tree on the disk that is measured, with the user's repository in it where a tool works in one."""
    tree = root / "tree"
    subprocess.run(["cp", "-a", source, tree], check=True)
    if needs_git:
        subprocess.run(["cp", "-a", repository, tree / ".git"], check=True)
        subprocess.run(["git", "-C", tree, "status", "--porcelain"], check=True, capture_output=True)
    disk.sync()
    return tree


def measure(tool, plan):
    """Rows by name."""
    rows, tree = {}, tool.tree
    files = changes.editable(tree)

    def first(_):
        tool.forget()
        disk.sync()
        init = tool.init()
        cost = tool.save()
        return init + cost if tool.init_counts else cost

    rows["first"] = yield from plan.row("first", first)
    disk.sync()
    rows["size_first"] = disk.usage(tool.store, tool.view)
    tool.save()

    rows["noop"] = yield from plan.row("noop", lambda _: tool.save())
    if hasattr(tool, "bundle"):
        yield from with_git(tool, files, plan, rows)
    before, ids = disk.usage(tool.store, tool.view), []

    def small(number):
        changes.change(tree, files, number)
        cost = tool.save()
        ids.append(tool.last)
        return cost

    rows["delta"] = yield from plan.row("delta", small, plan.saves, patience=120)
    disk.sync()
    rows["size_saves"] = after = disk.usage(tool.store, tool.view)
    rows["growth"] = [(late - early) / len(ids) for early, late in zip(before, after)]
    if tool.compact:
        tool.copy_store()

    if hasattr(tool, "show"):
        rows["show"] = yield from plan.row("show", lambda _: tool.show(ids[-1]))
        rows["diff"] = yield from plan.row("diff", lambda n: tool.diff(ids[-2 - n % 3], ids[-1 - n % 3]))

    yield from restore_in_place(tool, files, plan, rows)

    if tool.full:
        tool.save()
        yield from full(tool, plan, rows)

    if tool.compact:
        yield "compact"
        tool.take_copy()
        disk.sync()
        rows["compact"] = series([tool.compact()])
        disk.sync()
        rows["size_compact"] = disk.usage(tool.store, tool.view)

    rows["memory"] = max(row["peak_kb"] for row in rows.values() if isinstance(row, dict)) * 1024
    return rows


def with_git(tool, files, plan, rows):
    """What the repository's own state adds to a save: with and without it, in turns."""
    pairs = {"git_noop": lambda number: None, "git_commit": lambda number: commit(number)}

    def commit(number):
        with open(tool.tree / files[number % len(files)], "a") as file:
            file.write(f"line of commit {number}\n")
        tool.git("commit", "-qam", f"commit {number}")

    for row, prepare in pairs.items():
        without = []

        def both(number):
            prepare(2 * number)
            without.append(tool.save("--skip", "git"))
            prepare(2 * number + 1)
            return tool.save()

        rows[row] = yield from plan.row(row, both)
        rows[f"{row}_without"] = series(without)
    if getattr(tool, "guard", None):
        rows["guard"] = yield from plan.row("guard", lambda n: tool.guard(files[n % len(files)]))
    if getattr(tool, "tick", None):
        rows["tick"] = yield from plan.row("tick", lambda _: tool.tick())
    bundles, without = [], []

    def first(_):
        bundles.append(tool.bundle())
        without.append(tool.first("--skip", "git"))
        return tool.first()

    rows["git_first"] = yield from plan.row("git_first", first)
    rows["git_first_without"], rows["git_bundle"] = series(without), series(bundles)


def restore_in_place(tool, files, plan, rows):
    base, saves, wrong, left = tool.last, [], [], []

    def there_and_back(number):
        before = changes.change(tool.tree, files, 500 + number)
        saves.append(tool.save())
        return back(before)

    def back(before):
        cost = tool.restore(base)
        problems = changes.put_back(tool.tree, before)
        wrong.extend(problems[0])
        left.extend(problems[1])
        return cost

    there_and_back(-1)  # so that every save below comes right after a restore
    saves.clear()
    rows["restore"] = yield from plan.row("restore", there_and_back)
    rows["after_restore"] = series(saves)
    if tool.saves_on_restore:
        rows["restore_unsaved"] = yield from plan.row(
            "restore_unsaved", lambda number: back(changes.change(tool.tree, files, 700 + number)))
    rows["restore_wrong"], rows["restore_left"] = len(wrong), len(left)


def full(tool, plan, rows):
    copies = []

    def once(number):
        folder = tool.work / f"full.{number}.d"
        os.mkdir(folder)
        # The first is compared below; the others would fill the disk.
        for former in copies[1:]:
            shutil.rmtree(former)
        copies[1:] = []
        copies.append(folder)
        disk.sync()
        cost = tool.full(tool.last, folder)
        start = time.perf_counter()
        disk.sync_file_system(tool.work)
        cost.ms += (time.perf_counter() - start) * 1e3
        return cost

    rows["full"] = yield from plan.row("full", once)
    lost, changed = changes.differences(tool.tree, copies[0], (".git", *tool.litter))
    rows["full_lost"], rows["full_changed"] = len(lost), len(changed)


def history(tool, plan):
    """`list`, `show` and `diff` of neighbours in a home with very many checkpoints of a tiny project."""
    ids = []
    for number in range(10):
        (tool.tree / f"file{number}.txt").write_text(f"file {number}\n" * 40)
    for number in range(plan.checkpoints):
        with open(tool.tree / f"file{number % 10}.txt", "a") as file:
            file.write(f"line of checkpoint {number}\n")
        tool.save()
        ids.append(tool.last)
    rows, middle = {"checkpoints": len(ids), "home": disk.usage(tool.store, tool.view)}, len(ids) // 2
    rows["show"] = yield from plan.row("show", lambda n: tool.show(ids[middle + n % 7]))
    rows["diff"] = yield from plan.row("diff", lambda n: tool.diff(ids[middle + n % 7], ids[middle + n % 7 + 1]))
    rows["list"] = yield from plan.row("list", lambda _: tool.list())
    rows["list_json"] = yield from plan.row("list", lambda _: tool.list("--json"))
    rows["list_all"] = yield from plan.row("list", lambda _: tool.list(str(len(ids)), "--json"))
    return rows
