"""A PostgreSQL server of a case's own, without a password, that waits for no disk."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def programs():
    """Where the newest installed server has its programs."""
    found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(found, key=lambda path: int(path.parts[-3]), default=None)
    path = newest or shutil.which("postgres")
    assert path, "no PostgreSQL server is installed"
    return pathlib.Path(path).parent


class Postgres:
    """Used as a context: the server ends with it."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rappel-pg-"))
        # A server refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        data = self.folder / "data"
        made = ["initdb", "--no-sync", "--username=postgres", "--auth=trust", f"--pgdata={data}"]
        subprocess.run(self.of(*made), **self.how(), check=True)
        settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off"]
        command = self.of("postgres", "-D", data, *(f"--{one}" for one in settings))
        self.server = subprocess.Popen(command, **self.how())
        end = time.monotonic() + 60
        while subprocess.run(self.of("pg_isready", "-h", self.folder), **self.how()).returncode:
            assert self.server.poll() is None and time.monotonic() < end, "no server answers"
            time.sleep(0.05)
        self.sql("CREATE DATABASE app", database="postgres")
        return self

    def __exit__(self, *_):
        self.server.terminate()
        try:
            self.server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        shutil.rmtree(self.folder)

    def of(self, program, *arguments):
        return [programs() / program, *arguments]

    def how(self):
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        return quiet | {"stderr": subprocess.DEVNULL, "cwd": "/", "user": self.user}

    @property
    def url(self):
        return f"postgres://postgres@{str(self.folder).replace('/', '%2F')}/app"

    def sql(self, text, database="app"):
        """What a statement answers, one row a line."""
        command = self.of("psql", "-XAtq", "-h", self.folder, "-U", "postgres", "-d", database)
        done = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "-c", text], cwd="/", text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=True,
        )
        return done.stdout
