//! Exit codes, help and completions of the real program.

use std::process::{Command, Output};

fn braid_load(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).output().unwrap()
}

#[test]
fn wrong_usage_ends_with_64_and_says_why_on_standard_error() {
    for words in [
        &[][..],
        &["walk"],
        &["replay", "/nonexistent.ndjson"],
        &["run", "--rate", "fast"],
        &["run", "--url", "https://x"],
        &["run", "--rate", "0"],
        &["run", "--target", "influx", "--verify"],
        &["run", "--target", "dynamodb-items", "--format", "line"],
        &["run", "--target", "cql-rows", "--encoding", "gzip"],
        &["run", "--target", "cql-rows", "--reads", "5"],
    ] {
        let output = braid_load(words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{words:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_server_that_is_not_there_ends_with_69() {
    for more in [&[][..], &["--verify"]] {
        let words = ["run", "--url", "http://127.0.0.1:1", "--retry-for", "1ms", "--events", "10"];
        let output = braid_load(&[&words[..], more].concat());
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot connect"), "{output:?}");
    }
}

#[test]
fn help_names_the_exit_codes_and_the_grammar_of_rates() {
    let output = braid_load(&["run", "--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["dynamodb-items", "cql-rows", "Exit codes:", "Examples:", "10k..200k/30s", "--verify"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn completions_are_written_for_every_shell() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef braid-load"), ("fish", "complete -c braid-load")] {
        let output = braid_load(&["completions", shell]);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(part), "{shell}");
    }
}

#[test]
fn bash_completes_the_flags_of_a_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("completions");
    std::fs::write(&script, braid_load(&["completions", "bash"]).stdout).unwrap();
    let ask = "source \"$1\"; f=$(complete -p braid-load | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
        COMP_WORDS=(braid-load run --targ); COMP_CWORD=2; \"$f\" braid-load --targ run; echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash").args(["-c", ask, "bash"]).arg(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--target\n", "{output:?}");
}
