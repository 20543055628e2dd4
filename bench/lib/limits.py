"""Holding the results against limits.toml."""
import tomllib
from pathlib import Path
from statistics import median

UNITS = {"ms": 1, "KB": 1e3, "MB": 1e6, "%": 0.01, "captures": 1}


def table():
    with open(Path(__file__).resolve().parents[1] / "limits.toml", "rb") as file:
        return tomllib.load(file)["limit"]


def value(row):
    """One number for a row: the median of its runs, or its bytes on disk."""
    if row is None:
        return None
    if isinstance(row, dict):
        return median(row["ms"])
    return row[0] if isinstance(row, (list, tuple)) else row


def check(results):
    """(state, text) for every limit: met, missed, or skipped where it was not asked to be measured."""
    trees = dict(results["trees"])
    if results.get("history"):
        name = f"a home with {results['history'].get('checkpoints', 'many')} checkpoints"
        trees[name] = {"class": "history", "columns": {"rappel": results["history"]}}
    for name, rows in (results.get("databases") or {}).items():
        trees[name] = {"class": name, "columns": {"rappel": rows}}
    if results.get("sessions"):
        trees["a session"] = {"class": "session", "columns": {"rappel": results["sessions"]}}
    if results.get("past"):
        trees["a long past"] = {"class": "past", "columns": {"rappel": results["past"]}}
    for agent, surroundings in (results.get("hooks") or {}).items():
        for name, rows in surroundings.items():
            trees[f"hooks of {agent} with {name}"] = {"class": f"hooks_{name}", "columns": {"rappel": rows}}
    if results.get("at_once"):
        trees["saves at once"] = {"class": "at-once", "columns": {"rappel": results["at_once"]}}
    if results.get("imports"):
        trees["1,000 checkpoints"] = {"class": "imports", "columns": {"rappel": results["imports"]}}
    if results.get("serve"):
        trees["a process that lives"] = {"class": "serve", "columns": {"rappel": results["serve"]}}
    if results.get("page"):
        trees["the dashboard"] = {"class": "page", "columns": {"rappel": results["page"]}}
    lines = []
    for limit in table():
        for kind, number in limit["limit"].items():
            fitting = [(name, tree) for name, tree in trees.items() if tree["class"] == kind]
            if not fitting:
                lines.append(("skipped", f"{limit['row']} on {kind}: not measured in this run"))
            for name, tree in fitting:
                lines.append(judge(limit, number, name, tree))
    return lines


def judge(limit, number, name, tree):
    columns, row = tree["columns"], limit["row"]
    label = f"{row} {'in' if tree['class'] == 'history' else 'on'} {name}"
    if limit.get("generated") and not tree.get("generated"):
        return "skipped", f"{label}: holds for the generated trees only"
    ours = columns.get(limit.get("column", "rappel"), {})
    mine = value(ours.get(row))
    if mine is None:
        return "missed", f"{label}: no figure ({ours.get('error', 'not measured')})"
    made = {"saves": len(ours["delta"]["ms"]) if "delta" in ours else 0, "checkpoints": ours.get("checkpoints", 0)}
    for what, least in limit.get("needs", {}).items():
        if made[what] < least:
            return "skipped", f"{label}: {made[what]} {what}, {least} needed"
    if limit.get("times") == "before":
        return against_before(number, label, mine, value(columns.get(f"{limit.get('column', 'rappel')}-before", {}).get(row)))
    if "under" in limit:
        unit = limit["under"]
        return verdict(mine < number * UNITS[unit], f"{label}: {mine / UNITS[unit]:.1f} {unit}, limit {number} {unit}")
    if "more_than" in limit:
        base = value(ours.get(limit["more_than"]))
        unit = value(ours.get(limit["of"])) if "of" in limit else 1
        if base is None or unit is None:
            return "missed", f"{label}: no figure for {limit['more_than']}"
        if "of" in limit:
            return verdict(mine - base <= number * unit,
                           f"{label}: {mine - base:.1f} ms more than {limit['more_than']}, "
                           f"{(mine - base) / unit:.2f} times {limit['of']} ({unit:.1f} ms), limit {number} times")
        return verdict(mine <= base + number, f"{label}: {mine:.1f} ms, {mine - base:.1f} ms more than {limit['more_than']} "
                                              f"({base:.1f} ms), limit {number} ms")
    if "times" in limit:
        other = limit["times"]
        base = value((columns.get("floor", {}) if other == "floor" else ours).get(row if other == "floor" else other))
        if base is None:
            return "missed", f"{label}: no figure for {other}"
        return verdict(mine <= number * base, f"{label}: {mine:.1f} ms, {mine / base:.2f} times {other} "
                                              f"({base:.1f} ms), limit {number} times")
    return faster(limit["faster_than"], number, label, row, mine, columns)


def against_before(number, label, mine, before):
    if before is None:
        return "skipped", f"{label}: no earlier binary (--before) in this run"
    return verdict(mine <= number * before,
                   f"{label}: {mine:.1f} ms, {mine / before:.3f} times before ({before:.1f} ms), limit {number} times")


def faster(whom, number, label, row, mine, columns):
    peers = {peer: column for peer, column in columns.items() if not peer.startswith("rappel") and peer != "floor"}
    if whom != "every peer":
        if whom not in peers:
            return "skipped", f"{label}: {whom} not measured in this run"
        peers = {whom: peers[whom]}
    figures = {peer: value(column.get(row)) for peer, column in peers.items()}
    figures = {peer: figure for peer, figure in figures.items() if figure is not None}
    if not figures:
        reason = "; ".join(column.get("error", "it cannot") for column in peers.values())
        return ("missed" if reason else "skipped"), f"{label}: no figure for {whom} ({reason or 'no peers in this run'})"
    best = min(figures, key=figures.get)
    return verdict(figures[best] >= number * mine,
                   f"{label}: {mine:.1f} ms, {figures[best] / mine:.2f} times faster than {best} "
                   f"({figures[best]:.1f} ms), limit {number} times")


def verdict(good, text):
    return ("met" if good else "missed"), text
