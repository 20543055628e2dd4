"""What databases in a checkpoint cost: time against `pg_dump > /dev/null` and `sqlite3 .backup` of the same database in the
same run, room against what changed, memory.

Every round begins with a new home: a first save, a change of 1 % of one table's rows, a save. So each change is
stored against a whole dump, and every figure has as many runs as there are rounds.
"""
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from itertools import zip_longest

import disk
from measure import series
from process import Failed, run
from tools import Rappel

SCALE = 13              # of pgbench: 1.3 million rows, some 200 MB
TEXTS = 400_000         # rows of text that does not compress
SQLITE_ROWS = 1_300_000 # some 200 MB
PAGE = 4096             # of SQLite
PG_DUMP = 'exec "$0" "$@" >/dev/null'

# Where rows lie together, and where they are all over; {n} is another number in every round.
ACCOUNTS = {"together": "aid / 13000 = 30 + {n}", "scattered": "aid % 100 = {n}"}
TEXT = {"together": "id / 4000 = 30 + {n}", "scattered": "id % 100 = {n}"}
PAGES = {"together": "id / 13000 = 30 + {n}", "scattered": "id % 100 = {n}"}


class Project(Rappel):
    """A tiny project with one database."""

    def __init__(self, program, root, url):
        root.mkdir()
        (root / "tree").mkdir()
        super().__init__(program, root, root / "tree")
        (self.tree / "main.py").write_text("print('hello')\n")
        (self.tree / "rappel.toml").write_text(f'[[database]]\nname = "db"\nurl = "{url}"\n')

    def save(self, *words):
        cost = super().save(*words)
        said = json.loads(self.rappel("show", self.last, "--json")[1])
        if said["partial"]:
            raise Failed(f"the save is partial: {said['partial_reasons']}")
        return cost

    def added(self, work):
        """(cost of a save, bytes that it added to the home)."""
        before = disk.usage(self.store, self.view)[1]
        cost = work()
        return cost, disk.usage(self.store, self.view)[1] - before


class Rows:
    """Runs by row, in the order they came."""

    def __init__(self):
        self.costs, self.bytes = {}, {}

    def cost(self, row, cost):
        self.costs.setdefault(row, []).append(cost)

    def share(self, row, added, raw):
        self.bytes.setdefault(row, []).append((added, raw))

    def results(self):
        rows = {row: series(costs) for row, costs in self.costs.items()}
        for row, pairs in self.bytes.items():
            added, raw = max(pairs, key=lambda pair: pair[0] / pair[1])
            rows |= {f"{row}_added": added, f"{row}_raw": raw, f"{row}_share": added / raw}
        saves = [cost.peak_kb for row, costs in self.costs.items() for cost in costs if row == "first" or row.startswith("save_")]
        rows["memory"] = max(saves) * 1024
        return rows


def unchanged(project, rows, runs):
    """Saves with the database and without, in turns. What the first of each leaves is not counted."""
    project.save()
    project.save("--skip", "databases")
    grown = []
    for _ in range(runs):
        disk.sync()
        cost, added = project.added(project.save)
        rows.cost("unchanged", cost)
        grown.append(added)
        disk.sync()
        rows.cost("unchanged_without", project.save("--skip", "databases"))
    return max(grown)


def postgres(program, root, server, runs, say):
    server.pgbench("bench", SCALE)
    server.sql("bench", f"""
        CREATE TABLE texts (id int PRIMARY KEY, text text, balance int);
        INSERT INTO texts SELECT i, md5(i::text) || md5((-i)::text), 0 FROM generate_series(1, {TEXTS}) i;""")
    server.sql("bench", "VACUUM ANALYZE")
    project, rows = Project(program, root / "postgres", server.url("bench")), Rows()
    pg_dump = ["sh", "-c", PG_DUMP, *server.client("pg_dump", "bench")]
    run(pg_dump, "/", project.env)
    changes = [("accounts", kind, "pgbench_accounts", "abalance", "aid, bid, abalance, filler", where) for kind, where in ACCOUNTS.items()]
    changes += [("texts", kind, "texts", "balance", "id, text, balance", where) for kind, where in TEXT.items()]
    for number in range(runs):
        for table, kind, name, column, columns, where in changes:
            say(f"{table}, {kind}")
            where = where.format(n=number)
            project.forget()
            disk.sync()
            rows.cost("first", project.save())
            rows.cost("pg_dump", run(pg_dump, "/", project.env)[0])
            server.sql("bench", f"UPDATE {name} SET {column} = {column} + 1 + (random() * 5000)::int WHERE {where}")
            raw = len(server.sql("bench", f"COPY (SELECT {columns} FROM {name} WHERE {where}) TO STDOUT"))
            disk.sync()
            cost, added = project.added(project.save)
            rows.cost(f"save_{table}_{kind}", cost)
            rows.share(f"{table}_{kind}", added, raw)
            rows.cost("pg_dump_changed", run(pg_dump, "/", project.env)[0])
            # From here on the places of the old versions are free for new ones.
            server.sql("bench", f"VACUUM {name}")
    say("unchanged")
    grown = unchanged(project, rows, 3 * runs)
    dump = int(server.sql("bench", "SELECT pg_database_size('bench')"))
    return {**rows.results(), "unchanged_added": grown, "bytes": dump}


def sqlite(program, root, runs, say):
    project, rows = Project(program, root / "sqlite", "sqlite:data.db"), Rows()
    file = project.tree / "data.db"
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA page_size = {PAGE}")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, note TEXT, n INT)")
        db.execute(f"""INSERT INTO t WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {SQLITE_ROWS})
            SELECT n, hex(randomblob(40)), 'the note of row number ' || n || ', which says what notes say', 0 FROM i""")
    db.close()
    backups = root / "sqlite" / "backups"
    backups.mkdir()

    def backup():
        target = backups / str(len(os.listdir(backups)))
        disk.sync()
        return run(["sqlite3", file, f".backup {target}"], project.tree, project.env)[0]

    backup()
    for number in range(runs):
        for kind, where in PAGES.items():
            say(f"sqlite, {kind}")
            project.forget()
            disk.sync()
            rows.cost("first", project.save())
            rows.cost("backup", backup())
            raw = change(file, where.format(n=number))
            disk.sync()
            cost, added = project.added(project.save)
            rows.cost(f"save_pages_{kind}", cost)
            rows.share(f"pages_{kind}", added, raw)
            rows.cost("backup_changed", backup())
    say("unchanged")
    grown = unchanged(project, rows, 3 * runs)
    return {**rows.results(), "unchanged_added": grown, "bytes": file.stat().st_size}


def change(file, where):
    """Changes rows; the bytes of the pages that are another now."""
    before = pages(file)
    with sqlite3.connect(file) as db:
        db.execute(f"UPDATE t SET x = hex(randomblob(40)) WHERE {where}")
    db.close()
    return PAGE * sum(one != other for one, other in zip_longest(before, pages(file)))


def pages(file):
    """A hash of each page. Not the pages: our memory would be the least that a program seems to take."""
    with open(file, "rb") as read:
        return [hashlib.blake2b(page, digest_size=8).digest() for page in iter(lambda: read.read(PAGE), b"")]


def versions(server):
    """The programs that were measured against."""
    sqlite3_program = subprocess.run(["sqlite3", "--version"], check=True, capture_output=True, text=True).stdout.split()[0]
    dump = subprocess.run([server.programs / "pg_dump", "--version"], check=True, capture_output=True, text=True).stdout
    return [dump.strip().split(" (Debian")[0], f"sqlite3 {sqlite3_program}"]


def missing():
    """A program without which nothing can be measured."""
    return next((program for program in ("setpriv", "sqlite3") if not shutil.which(program)), None)
