"""A PostgreSQL server for one run: in a temporary folder, reached by a socket there, gone with the run."""
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# Who runs it where root must not.
UNPRIVILEGED = "postgres"


def programs():
    """The folder of the newest server that is installed; None if there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    there = shutil.which("postgres")
    return Path(there).resolve().parent if there else None


class Server:
    def __init__(self):
        self.programs = programs()
        if not self.programs:
            raise SystemExit("no PostgreSQL server is installed; hint: apt-get install postgresql")
        self.folder = Path(tempfile.mkdtemp(prefix="rappel-bench-pg-"))
        if os.geteuid() == 0:
            os.chown(self.folder, pwd.getpwnam(UNPRIVILEGED).pw_uid, -1)
        self.process = None

    def __enter__(self):
        data = self.folder / "data"
        self._as_somebody("initdb", "-D", data, "--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C").wait()
        # Nothing happens in it that the benchmark did not ask for, and no wait for the disk.
        settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", "autovacuum=off", "fsync=off",
                    "full_page_writes=off", "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=1h"]
        self.process = self._as_somebody("postgres", "-D", data, *(word for one in settings for word in ("-c", one)))
        for _ in range(600):
            if subprocess.run(self.client("psql", "postgres", "-XAtqc", "SELECT 1"), capture_output=True, check=False).returncode == 0:
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.__exit__()
        raise SystemExit("the PostgreSQL server does not start")

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_somebody(self, program, *words):
        command = ["setpriv", "--pdeathsig", "QUIT"]
        if os.geteuid() == 0:
            command += ["--reuid", UNPRIVILEGED, "--regid", UNPRIVILEGED, "--clear-groups"]
        return subprocess.Popen([*command, "--", self.programs / program, *words], cwd="/", stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def client(self, program, database, *words):
        """The command line of one of its client programs."""
        return [self.programs / program, "-h", self.folder, "-U", "postgres", *words, database]

    def url(self, database):
        return f"postgres://postgres@{str(self.folder).replace('/', '%2F')}/{database}"

    def sql(self, database, statements):
        """Carries out statements and gives the bytes that they answer."""
        command = self.client("psql", database, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements)
        return subprocess.run(command, check=True, capture_output=True).stdout

    def pgbench(self, database, scale):
        self.sql("postgres", f"CREATE DATABASE {database}")
        subprocess.run(self.client("pgbench", database, "-i", "-q", "-s", str(scale)), check=True, capture_output=True)
