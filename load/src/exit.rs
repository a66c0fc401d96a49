//! Exit codes, in one place. 2 says that data is wrong and nothing else, so that a script can rely on it.

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went through.
    Done = 0,
    /// Some events were refused or never sent, or some reads failed.
    Refused = 1,
    /// Verification failed.
    Wrong = 2,
    /// Two results are not of the same workload on the same machine.
    NotComparable = 3,
    /// The command line makes no sense (`EX_USAGE`).
    Usage = 64,
    /// The run broke off, was interrupted, measured nothing, or could not be verified (`EX_UNAVAILABLE`).
    BrokenOff = 69,
}

/// Why nothing was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotStarted {
    pub(crate) exit: Exit,
    pub(crate) why: String,
}

impl From<String> for NotStarted {
    /// What is wrong with a command line.
    fn from(why: String) -> NotStarted {
        NotStarted { exit: Exit::Usage, why }
    }
}

impl NotStarted {
    /// The server could not be asked what had to be known first.
    pub(crate) fn unavailable(why: String) -> NotStarted {
        NotStarted { exit: Exit::BrokenOff, why }
    }
}

/// What `--help` says of it.
pub(crate) const HELP: &str = "\
Exit codes:
  0   every event is stored, every read was answered
  1   some events were refused or never sent, or some reads failed
  2   verification failed: events were lost, invented, doubled or altered
  3   compare: the results are not of the same workload on the same machine
  64  wrong usage; nothing was sent
  69  broken off: interrupted, nothing measured, or the server refused a request or could not be reached for as long as --retry-for";
