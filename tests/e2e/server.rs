//! A `braid` of a test's own: started on a free port over a directory of its own, stopped when dropped.
//!
//! Waits on conditions, never for a time. Its log goes to a file that is shown when a test fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::Client;

/// Longest wait for anything that must happen; far beyond what it takes, so that only a standstill ends it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    dir: TempDir,
    child: Option<Child>,
    address: String,
    client: Client,
    flags: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// How a server is brought down before it is started again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// SIGTERM: it finishes what it accepted.
    Drain,
    /// SIGKILL: it finishes nothing.
    Kill,
}

impl Server {
    /// A fresh server.
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    /// A fresh server with more flags.
    pub(crate) fn start_with(flags: &[&str]) -> Server {
        Server::start_in(Vec::new(), flags)
    }

    /// A fresh server with more flags and an environment.
    pub(crate) fn start_in(environment: Vec<(&'static str, String)>, flags: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut server = Server { dir, child: None, address: "127.0.0.1:0".to_owned(), client: Client::new(""), flags, environment };
        server.spawn();
        server
    }

    /// What speaks to it; stays valid over restarts.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Stops it and starts it again on the same port and data.
    pub(crate) fn restart(&mut self, end: End) {
        self.stop(end);
        self.spawn();
    }

    /// Stops it, does `work` with the flags that name its data, and starts it again.
    pub(crate) fn down<T>(&mut self, work: impl FnOnce(&[&str]) -> T) -> T {
        self.stop(End::Drain);
        let data = self.data_dir();
        let done = work(&["--data-dir", data.to_str().expect("a path in UTF-8")]);
        self.spawn();
        done
    }

    /// Stops it; draining must end with exit code 0.
    pub(crate) fn stop(&mut self, end: End) {
        let Some(mut child) = self.child.take() else { return };
        let signal = match end {
            End::Drain => Signal::TERM,
            End::Kill => Signal::KILL,
        };
        kill_process(pid(&child), signal).expect("the server runs");
        let status = wait(&mut child);
        if let End::Drain = end {
            assert!(status.success(), "drained with {status}\n{}", self.log());
        }
    }

    /// Sends it a signal, such as one to pause.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.as_ref().expect("it runs")), signal).expect("it runs");
    }

    /// Starts it on the data at hand and waits until it is ready.
    pub(crate) fn spawn(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_braid"))
            .args(["--listen", &self.address, "--data-dir"])
            .arg(self.data_dir())
            .args(&self.flags)
            .env("RUST_BACKTRACE", "0")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("it is piped");
        self.child = Some(child);
        self.address = self.announced(stdout);
        self.client.set_base(&self.url());
        self.wait_ready();
    }

    /// The address in the line `braid listening on http://…`. The rest of its output is drained.
    fn announced(&self, stdout: impl Read + Send + 'static) -> String {
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("braid listening on http://") {
                    let _ = said.send(address.to_owned());
                }
            }
        });
        heard.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it did not say where it listens\n{}", self.log()))
    }

    fn wait_ready(&self) {
        until("it is ready", || self.client.try_get("/readyz").is_ok_and(|answer| answer.status == 200));
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// All that it logged.
    pub(crate) fn whole_log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log(&self) -> String {
        let log = self.whole_log();
        let tail = log.len().saturating_sub(8_000);
        log.get(tail..).unwrap_or_default().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}---", self.log());
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process of a test's own that is stopped when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(program: &Path, args: &[&str], log: &Path) -> Process {
        let log = File::create(log).expect("a log file");
        let out = log.try_clone().expect("a log file");
        let child = Command::new(program).args(args).stdin(Stdio::null()).stdout(out).stderr(log).spawn();
        Process(child.unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        kill_process(pid(&self.0), Signal::TERM).expect("it runs");
        wait(&mut self.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells a test's threads to end, at the latest when it is dropped: a test that fails must not wait for them for ever.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("the process ends", || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    status.expect("it ended")
}

/// Looks again and again until `condition` holds; a standstill fails the test.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
