"""All measurements of one tool on one tree, in an order in which none disturbs the next."""
import os
import subprocess
import time

import changes
import disk


class Plan:
    """How often, and for how long."""

    def __init__(self, runs, saves, patience, checkpoints):
        self.runs, self.saves, self.patience, self.checkpoints = runs, saves, patience, checkpoints

    def repeat(self, work, runs=None, patience=None):
        """The costs of up to `runs` calls; fewer once they took longer than patience allows, but never very few."""
        costs, start, least = [], time.monotonic(), 3 if self.patience else self.runs
        patience = self.patience or patience
        for number in range(runs or self.runs):
            costs.append(work(number))
            if patience and len(costs) >= least and time.monotonic() - start > patience:
                break
        return costs


def series(costs):
    """What is kept of a row: every run, in order."""
    return {"ms": [round(cost.ms, 3) for cost in costs], "cpu_ms": [round(cost.cpu_ms, 1) for cost in costs],
            "peak_kb": max(cost.peak_kb for cost in costs)}


def place(source, repository, root, needs_git):
    """A copy of the tree on the disk that is measured, with the user's repository in it where a tool works in one."""
    tree = root / "tree"
    subprocess.run(["cp", "-a", source, tree], check=True)
    if needs_git:
        subprocess.run(["cp", "-a", repository, tree / ".git"], check=True)
        subprocess.run(["git", "-C", tree, "status", "--porcelain"], check=True, capture_output=True)
    disk.sync()
    return tree


def measure(tool, plan, say):
    """Rows by name. `say` is told what is going on."""
    rows, tree = {}, tool.tree
    files = changes.editable(tree)

    say("first save")

    def first(_):
        tool.forget()
        disk.sync()
        init = tool.init()
        cost = tool.save()
        disk.sync()
        return init + cost if tool.init_counts else cost

    rows["first"] = series(plan.repeat(first))
    rows["size_first"] = disk.usage(tool.store, tool.view)

    say("nothing changed")
    tool.save()
    disk.sync()
    rows["noop"] = series(plan.repeat(lambda _: tool.save()))

    say("small saves")
    before, ids = disk.usage(tool.store, tool.view), []

    def small(number):
        changes.change(tree, files, number)
        cost = tool.save()
        ids.append(tool.last)
        return cost

    costs = plan.repeat(small, plan.saves, patience=120)
    rows["delta"] = series(costs)
    disk.sync()
    rows["size_saves"] = after = disk.usage(tool.store, tool.view)
    rows["growth"] = [(late - early) / len(costs) for early, late in zip(before, after)]

    if hasattr(tool, "show"):
        rows["show"] = series(plan.repeat(lambda _: tool.show(ids[-1])))
        rows["diff"] = series(plan.repeat(lambda number: tool.diff(ids[-2 - number % 3], ids[-1 - number % 3])))
    if tool.compact:
        tool.compacted_copy()
        disk.sync()

    say("restore in place")
    restore_in_place(tool, files, plan, rows)

    if tool.full:
        say("full restore")
        tool.save()
        full(tool, plan, rows)

    if tool.compact:
        say("compaction")
        tool.take_copy()
        disk.sync()
        rows["compact"] = series([tool.compact()])
        disk.sync()
        rows["size_compact"] = disk.usage(tool.store, tool.view)

    timed = [row for row in rows.values() if isinstance(row, dict)]
    rows["memory"] = max(row["peak_kb"] for row in timed) * 1024
    return rows


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
    disk.sync()
    rows["restore"] = series(plan.repeat(there_and_back))
    rows["after_restore"] = series(saves)
    if tool.saves_on_restore:
        disk.sync()
        rows["restore_unsaved"] = series(
            plan.repeat(lambda number: back(changes.change(tool.tree, files, 700 + number))))
    rows["restore_wrong"], rows["restore_left"] = len(wrong), len(left)
    disk.sync()


def full(tool, plan, rows):
    copies = []

    def once(number):
        folder = tool.work / f"full.{number}.d"
        os.mkdir(folder)
        copies.append(folder)
        disk.sync()
        cost = tool.full(tool.last, folder)
        start = time.perf_counter()
        disk.sync_file_system(tool.work)
        cost.ms += (time.perf_counter() - start) * 1e3
        return cost

    rows["full"] = series(plan.repeat(once))
    lost, changed = changes.differences(tool.tree, copies[0], (".git", *tool.litter))
    rows["full_lost"], rows["full_changed"] = len(lost), len(changed)


def history(kind, program, root, plan):
    """`list`, `show` and `diff` of neighbours in a home with very many checkpoints of a tiny project."""
    tree = root / "tree"
    tree.mkdir()
    for number in range(10):
        (tree / f"file{number}.txt").write_text(f"file {number}\n" * 40)
    tool, ids = kind(program, root, tree), []
    for number in range(plan.checkpoints):
        with open(tree / f"file{number % 10}.txt", "a") as file:
            file.write(f"line of checkpoint {number}\n")
        tool.save()
        ids.append(tool.last)
    disk.sync()
    middle = len(ids) // 2
    return {
        "checkpoints": len(ids),
        "list": series(plan.repeat(lambda _: tool.list())),
        "list_json": series(plan.repeat(lambda _: tool.list("--json"))),
        "list_all": series(plan.repeat(lambda _: tool.list(str(len(ids)), "--json"))),
        "show": series(plan.repeat(lambda n: tool.show(ids[middle + n % 7]))),
        "diff": series(plan.repeat(lambda n: tool.diff(ids[middle + n % 7], ids[middle + n % 7 + 1]))),
        "home": disk.usage(tool.store, tool.view),
    }
