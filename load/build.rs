//! Tells the program which commit it was built from, for its results.

use std::process::Command;

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=BRAID_COMMIT={commit}");
    // Grows with every commit and checkout; without it (a tarball) nothing changes.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
