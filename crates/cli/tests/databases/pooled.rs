//! Behind a pooler that gives its connections to another client after every transaction.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rappel_testing::postgres::programs;

use crate::scene::{Scene, wait_until};

const PORT: &str = "6432";

/// A pgbouncer with one connection to the server, which all of its clients share.
struct Pooler(Child);

impl Pooler {
    fn start(scene: &Scene) -> Self {
        let folder = scene.server.host();
        let (host, file) = (folder.display(), folder.join("pgbouncer.ini"));
        let text = format!(
            "[databases]\napp = host={host} user=postgres dbname=app\n[pgbouncer]\npool_mode = transaction\n\
             default_pool_size = 1\nauth_type = any\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {host}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
        }
        let installed = Path::new("/usr/sbin/pgbouncer");
        let program = if installed.exists() { installed } else { Path::new("pgbouncer") };
        command.arg("--").arg(program).arg(&file);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Self(child);
        wait_until("the pooler answers", || ask(scene, "SELECT 1").is_some());
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the application behind the pooler is answered.
fn ask(scene: &Scene, query: &str) -> Option<String> {
    let mut psql = Command::new(programs().join("psql"));
    psql.args(["-XAtq", "-U", "postgres", "-d", "app", "-p", PORT, "-c", query, "-h"]);
    let output = psql.arg(scene.server.host()).stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    output.status.success().then_some(text)
}

#[test]
fn a_look_leaves_no_setting_on_the_applications_connections() {
    let scene = Scene::new();
    scene.world.save("by the server's own address");
    let _pooler = Pooler::start(&scene);
    let url = scene.server.url("app");
    let (host, database) = url.rsplit_once('/').unwrap();
    scene.address(&format!("{host}:{PORT}/{database}"));
    scene.world.json(&["status"]);
    let made_by_us = "SELECT string_agg(name, ' ') FROM pg_settings
        WHERE source = 'session' AND name IN ('statement_timeout', 'lock_timeout', 'synchronous_commit', 'search_path')";
    assert_eq!(ask(&scene, made_by_us).unwrap(), "");
    scene.world.json(&["save", "unchanged"]);
    assert_eq!(ask(&scene, made_by_us).unwrap(), "");
}
