"""Cases: a command destroys what git does not hold, and one restore brings it back."""

from cases import case
from postgres import Postgres, programs


@case(
    wipe=[{"do": [("shell", "rm -rf secret")]}, {"say": "It is gone."}],
    reset=[{"do": [("shell", "git reset --quiet --hard HEAD~1")]}, {"say": "It is reset."}],
    leave=[{"do": [("shell", "git worktree remove --force ../side")]}, {"say": "It is left."}],
    go=[{"do": [("shell", "git checkout --quiet --force tracked")]}, {"say": "It is there."}],
    clean=[{"do": [("shell", "git clean -fdxq")]}, {"say": "It is clean."}],
)
def what_a_command_destroys_comes_back(stage):
    world, agent = stage.world, stage.agent
    side = world.project.parent / "side"
    (world.project / ".gitignore").write_text("secret/\n*.local\n")
    world.git("add", ".gitignore")
    world.git("commit", "--quiet", "--message=second")
    world.git("worktree", "add", "--quiet", "-b", "side", str(side))
    # A branch that tracks what is ignored here: git overwrites that without a word.
    world.git("checkout", "--quiet", "-b", "tracked")
    (world.project / "mine.local").write_text("tracked\n")
    world.git("add", "--force", "mine.local")
    world.git("commit", "--quiet", "--message=tracked")
    world.git("checkout", "--quiet", "main")
    (side / "only-here.txt").write_text("kept\n")
    (world.project / "secret").mkdir()
    for path in ("secret/.env", "mine.local", "untracked.txt", "src/main.py"):
        (world.project / path).write_text("not committed\n")
    world.rappel("save")
    for step in ("wipe", "reset", "leave", "go", "clean"):
        before = world.tree(), side.joinpath("only-here.txt").read_text()
        agent.ask(f"Clear it away. (script: {step})")
        last = world.checkpoints("pre-operation")[-1]
        world.rappel("restore", last["id"], "--confirm")
        assert (world.tree(), side.joinpath("only-here.txt").read_text()) == before, step


#: Does to the database what Prisma does, without Prisma: the schema goes, and empty tables come.
PRISMA = """\
#!/bin/sh
set -eu
. ./.env
exec "{psql}" -XAtq -v ON_ERROR_STOP=1 "$DATABASE_URL" -c 'DROP SCHEMA public CASCADE' \\
    -c 'CREATE SCHEMA public' -c 'CREATE TABLE people (id int PRIMARY KEY, name text)'
"""


@case(
    migrate=[{"do": [("shell", "./bin/prisma migrate reset --force")]}, {"say": "It is reset."}],
    push=[{"do": [("shell", "./bin/prisma db push --force-reset")]}, {"say": "It is pushed."}],
)
def the_rows_that_a_reset_of_a_database_takes_come_back(stage):
    world, agent = stage.world, stage.agent
    rows = "SELECT * FROM people ORDER BY id"
    with Postgres() as server:
        server.sql("CREATE TABLE people (id int PRIMARY KEY, name text); CREATE TABLE other (n int)")
        server.sql("INSERT INTO people VALUES (1, 'one'); INSERT INTO other VALUES (7)")
        (world.project / ".env").write_text(f"DATABASE_URL={server.url}\n")
        toml = '[[database]]\nname = "app"\nurl = "env:DATABASE_URL"\n'
        (world.project / "rappel.toml").write_text(toml)
        prisma = world.project / "bin/prisma"
        prisma.parent.mkdir()
        prisma.write_text(PRISMA.format(psql=programs() / "psql"))
        prisma.chmod(0o755)
        world.rappel("save")
        for number, step in enumerate(("migrate", "push"), start=2):
            # What was never saved comes back as well.
            server.sql(f"INSERT INTO people VALUES ({number}, '{step}')")
            before = world.tree(), server.sql(rows), server.sql("SELECT * FROM other")
            agent.ask(f"Make the database new. (script: {step})")
            assert server.sql(rows) == "", step
            last = world.checkpoints("pre-operation")[-1]
            assert last["description"].startswith("Before ./bin/prisma "), last
            world.rappel("restore", last["id"], "--confirm")
            after = world.tree(), server.sql(rows), server.sql("SELECT * FROM other")
            assert after == before, (step, before, after)
