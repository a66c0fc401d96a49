//! Work that gives way to requests: threads of a lower priority.
//!
//! Compaction, archiving and the engine's own upkeep take the processor in bursts. At the priority of
//! the threads that serve, each burst would make requests wait for its slices of time.

use std::panic::resume_unwind;

use tokio::task::JoinHandle;

/// How nice such threads are: where all processors are busy, one gets about a tenth of what a serving
/// thread does, so that it is slow and never starved.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// As [`tokio::task::spawn_blocking`], at a lower priority.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // Not on the pool's own thread: it serves requests next, and a priority can't be raised again.
    tokio::task::spawn_blocking(move || run(work))
}

/// Runs work on a thread of a lower priority, and waits for it here. Threads that it starts are as nice.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let nicely = || {
        give_way();
        work()
    };
    std::thread::scope(|scope| scope.spawn(nicely).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Lowers the priority of this thread for good. Elsewhere than on Linux priorities are the process's.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "background work keeps the priority of what serves");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn background_work_is_nicer_than_what_waits_for_it_and_so_are_its_threads() {
        let niceness = || rustix::process::nice(0).unwrap();
        let before = niceness();
        let inside = spawn(move || (niceness(), std::thread::spawn(niceness).join().unwrap())).await.unwrap();
        let expected = (before + NICENESS).min(19);
        assert_eq!((inside, niceness()), ((expected, expected), before));
    }

    #[tokio::test]
    async fn a_panic_inside_is_the_tasks() {
        assert!(spawn(|| panic!("inside")).await.unwrap_err().is_panic());
    }
}
