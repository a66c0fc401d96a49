//! The null server takes what the generator sends, in both formats that are measured against it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Ends its process when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_event_is_stored_by_a_server_that_keeps_none() {
    let program = env!("CARGO_BIN_EXE_braid-load");
    let mut server = Running(Command::new(program).arg("null-server").stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let url = said.trim().rsplit(' ').next().unwrap().to_owned();
    for format in ["ndjson", "line"] {
        let words = ["run", "--url", &url, "--rate", "max", "--events", "50000", "--format", format, "--json"];
        let output = Command::new(program).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&json["stored"], &json["requests"]), (&50_000.into(), &50.into()), "{format}");
    }
}
