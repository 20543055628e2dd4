//! The `[[command]]` of the guide, as it stands there, on a real Redis.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rappel_testing::Project;

use crate::scene::wait_until;
use crate::support::World;

/// A server of the test's own, on a socket.
struct Redis {
    folder: tempfile::TempDir,
    server: Child,
}

impl Redis {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("rappel-redis-").tempdir().unwrap();
        let server = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "redis-server", "--port", "0", "--save", ""])
            .arg("--unixsocket")
            .arg(folder.path().join("socket"))
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is needed; scripts/test installs it");
        let redis = Self { folder, server };
        wait_until("the server answers", || {
            let asked = redis.client().arg("PING").output().unwrap();
            asked.stdout == b"PONG\n"
        });
        redis
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Command {
        let mut command = Command::new("redis-cli");
        command.arg("-e").arg("-s").arg(self.socket());
        command
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = self.client().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The entry of the guide, with the test's socket in it.
fn configuration(redis: &Redis) -> String {
    let guide = include_str!("../../../../docs/guide/databases.md");
    let from = guide.find("[[command]]\nname = \"redis\"").expect("the guide has it");
    let entry = &guide[from..];
    let entry = &entry[..entry.find("```").unwrap()];
    let socket = format!("\"redis-cli\", \"-s\", \"{}\"", redis.socket().display());
    let ours = entry.replace("\"redis-cli\"", &socket);
    assert_eq!(ours.matches(&socket).count(), 2, "{entry}");
    ours
}

#[test]
fn redis_comes_back_as_the_guide_says() {
    let redis = Redis::start();
    let world = World::of(Project::new().file("code", "1\n"));
    world.write("rappel.toml", &configuration(&redis));
    world.write("scripts/redis-dump.lua", include_str!("../../../../docs/guide/redis-dump.lua"));
    world.trust();
    redis.ask(&["SET", "plain", "two\r\nlines and a \" quote"]);
    redis.ask(&["SET", "soon gone", "x", "EX", "100000"]);
    redis.ask(&["RPUSH", "queue", "a", "b", "a"]);
    redis.ask(&["ZADD", "ranks", "1.5", "x", "-inf", "y", "0.1", "z"]);
    redis.ask(&["XADD", "stream", "1-1", "field", "value"]);
    // So many that Redis keeps them in tables, whose order tells nothing.
    let many: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
    let mut members = vec!["SADD", "members"];
    members.extend(many.iter().map(String::as_str));
    redis.ask(&members);
    members[0] = "HSET";
    members[1] = "fields";
    redis.ask(&members);
    let portrait = || {
        [
            redis.ask(&["DBSIZE"]),
            redis.ask(&["GET", "plain"]),
            redis.ask(&["PEXPIRETIME", "soon gone"]),
            redis.ask(&["LRANGE", "queue", "0", "-1"]),
            redis.ask(&["ZRANGE", "ranks", "0", "-1", "WITHSCORES"]),
            redis.ask(&["XRANGE", "stream", "-", "+"]),
            redis.ask(&["SCARD", "members"]),
            redis.ask(&["HGET", "fields", "1498"]),
        ]
    };
    let before = portrait();
    let saved = world.json(&["save", "with redis"]);
    assert_eq!(
        (&saved["partial"], &saved["databases"][0]["kind"]),
        (&false.into(), &"command".into())
    );
    let id = saved["id"].as_str().unwrap();

    redis.ask(&["DEL", "queue", "members"]);
    redis.ask(&["SET", "plain", "other"]);
    redis.ask(&["SET", "new", "1"]);
    world.write("code", "2\n");
    let damaged =
        [redis.ask(&["DBSIZE"]), redis.ask(&["GET", "plain"]), redis.ask(&["GET", "new"])];
    world.json(&["restore", id, "--confirm"]);
    assert_eq!((portrait(), world.read("code").as_str()), (before.clone(), "1\n"));
    // What is equal gives equal bytes: undo sees that nobody changed it since.
    world.json(&["undo"]);
    let now = [redis.ask(&["DBSIZE"]), redis.ask(&["GET", "plain"]), redis.ask(&["GET", "new"])];
    assert_eq!((now, world.read("code").as_str()), (damaged, "2\n"));
    world.json(&["redo"]);
    assert_eq!(portrait(), before);
    let plan = world.json(&["restore", id, "--dry-run"]);
    assert_eq!(plan["actions"], serde_json::json!([]));
}

#[test]
fn without_its_server_the_checkpoint_is_partial() {
    let redis = Redis::start();
    let world = World::of(Project::new().file("code", "1\n"));
    world.write("rappel.toml", &configuration(&redis));
    world.write("scripts/redis-dump.lua", include_str!("../../../../docs/guide/redis-dump.lua"));
    world.trust();
    drop(redis);
    let output = world.run(&["save", "--json"]);
    let saved: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &saved["partial"]), (Some(0), &true.into()));
    let reason = saved["partial_reasons"].to_string();
    assert!(reason.contains("Could not connect to Redis"), "{reason}");
}
