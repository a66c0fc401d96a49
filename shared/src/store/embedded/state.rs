//! Whether the store takes writes, and why not.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::store::{StoreError, StoreErrorKind};

/// The store's condition, shared by the committer and whoever asks.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// Why no write is taken any more; once set it stays.
    halted: OnceLock<StoreError>,
    /// Room that must be free on the disk, bytes.
    reserve: u64,
}

impl State {
    pub(super) fn new(path: PathBuf, reserve: u64) -> State {
        State { path, halted: OnceLock::new(), reserve }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no write from now on. The first reason stands.
    pub(super) fn halt(&self, why: StoreError) {
        if self.halted.set(why.clone()).is_ok() {
            tracing::error!(error = %why, "the store takes no more writes");
        }
    }

    /// Whether the engine still takes writes.
    pub(super) fn running(&self) -> Result<(), StoreError> {
        self.halted.get().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Whether a write may be tried. A full disk is found here, before the engine finds it: it
    /// would not take another write until a restart, and here it does once there is room.
    pub(super) fn writable(&self) -> Result<(), StoreError> {
        self.running()?;
        match rustix::fs::statvfs(&self.path) {
            Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < self.reserve => {
                let message = format!("less than {} MiB are free below {}", self.reserve >> 20, self.path.display());
                Err(StoreError::new(StoreErrorKind::Full, message))
            }
            _ => Ok(()),
        }
    }
}
