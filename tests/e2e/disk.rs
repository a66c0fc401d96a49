//! A database on a disk that is really full, and really read-only: hot data stays, writes go on, the fault is
//! told, and archiving goes on by itself. Needs to mount a small file system, which takes root.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Client, JSON, query};
use crate::server::{Server, until};

const GROUPS: &str = "/v1/shop/groups";

/// A file system of a megabyte in memory.
struct Disk {
    dir: TempDir,
}

impl Disk {
    /// None where mounting is not allowed, which is said.
    fn mount() -> Option<Disk> {
        let disk = Disk { dir: tempfile::tempdir().expect("a temporary directory") };
        let path = disk.path().to_str().expect("a path of text");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", path]).output();
        match mounted {
            Ok(output) if output.status.success() => Some(disk),
            Ok(output) => skipped(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => skipped(&error.to_string()),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn remount(&self, how: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.path()).status();
        assert!(status.expect("mount runs").success(), "remount {how}");
    }

    /// Writes a file that takes all the room there is.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("ballast")).expect("a file");
        while file.write_all(&[b'.'; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.path().join("ballast")).expect("it is there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nothing is left to do where it was never mounted.
        drop(Command::new("umount").arg("--lazy").arg(self.path()).output());
    }
}

fn skipped(why: &str) -> Option<Disk> {
    assert!(std::env::var_os("BRAID_MOUNTS").is_none(), "BRAID_MOUNTS is set, and nothing can be mounted: {why}");
    eprintln!("skipped: nothing can be mounted here: {}", why.trim());
    None
}

fn day(read: &str, day: u32) -> String {
    let (from, to) = (format!("2026-01-{day:02}T00:00:00Z"), format!("2026-01-{:02}T00:00:00Z", day + 1));
    query(&format!("/v1/shop/{read}"), &[("key", "k"), ("from", &from), ("to", &to)])
}

fn write(client: &Client, day: u32) {
    let event = json!({"key": "k", "id": "e", "ts": format!("2026-01-{day:02}T12:00:00Z"), "value": day});
    client.post("/v1/shop/events", JSON, event.to_string()).expect(200);
}

fn is_archived(client: &Client, of: u32) -> bool {
    client.read(&day("explain", of))["partitions"] == json!([])
}

/// What the database's fault is said to be: by its group, by a read of what it has, by the metric.
fn check_fault(client: &Client, why: &str) {
    let names = |fault: &Value| fault.as_str().is_some_and(|fault| fault.contains("put: database full") && fault.contains(why));
    let fault = || client.read(GROUPS)["groups"][0]["databases"][0]["fault"].clone();
    until("the fault is told", || names(&fault()));
    let explained = client.read(&day("explain", 1));
    assert!(names(&explained["tables"][0]["fault"]), "{explained}");
    assert_eq!(put_works(client), "0");
    client.get("/readyz").expect(200);
}

fn check_sound(client: &Client) {
    assert!(client.read(GROUPS)["groups"][0]["databases"][0].get("fault").is_none());
    assert!(client.read(&day("explain", 1))["tables"][0].get("fault").is_none());
    assert_eq!(put_works(client), "1");
}

fn put_works(client: &Client) -> String {
    let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("metrics are text");
    let is_it = |line: &&str| line.starts_with("braid_cold_database_up{") && line.contains("call=\"put\"");
    let line = text.lines().find(is_it).expect("the database has a metric");
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn check_events(client: &Client, days: &[u32]) {
    for of in days {
        let events = client.read(&day("events", *of));
        assert_eq!((&events["events"][0]["fields"]["value"], &events["complete"]), (&json!(of), &json!(true)), "{events}");
    }
}

#[test]
fn a_full_and_a_read_only_database_lose_nothing_stop_no_write_and_are_told_until_they_are_well() {
    let Some(disk) = Disk::mount() else { return };
    let server = Server::start_with(&["--grace", "4s"]);
    let client = server.client();
    client.put("/v1/namespaces/shop", &json!({"shards": 2, "bucket": "1d", "archive_after": "1h"})).expect(201);
    let database = json!({"name": "full", "url": format!("file://{}/db", disk.path().display()), "tables": 1});
    client.post(GROUPS, JSON, json!({"tables": 1, "databases": [database]}).to_string()).expect(201);
    write(client, 1);
    until("the first day is in a table", || is_archived(client, 1));
    check_sound(client);

    disk.fill();
    write(client, 2);
    check_fault(client, "No space left on device");
    write(client, 3);
    check_events(client, &[1, 2, 3]);
    assert!(!is_archived(client, 2));
    disk.make_room();
    until("what could not be written is", || is_archived(client, 2) && is_archived(client, 3));
    check_sound(client);

    disk.remount("ro");
    write(client, 4);
    check_fault(client, "Read-only file system");
    check_events(client, &[1, 2, 3, 4]);
    assert!(!is_archived(client, 4));
    disk.remount("rw");
    until("what could not be written is", || is_archived(client, 4));
    check_sound(client);
    check_events(client, &[1, 2, 3, 4]);
}
