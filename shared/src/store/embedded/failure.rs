//! Errors of the embedded store: what fjall and the file system say, in the words of the trait.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreErrorKind};

/// Why a data directory could not be opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("data directory {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// Its mark is of a format that this build does not know.
    #[error("data directory {} has format {format}, which this build does not know (it knows 1 and 2)", .path.display())]
    Format {
        /// The directory.
        path: PathBuf,
        /// What its mark says.
        format: String,
    },
    /// It holds files but no mark: it is not Braid's.
    #[error("{} is not empty and not a data directory of Braid (it has no file BRAID)", .0.display())]
    Foreign(PathBuf),
    /// What was acknowledged is damaged.
    #[error("{} is damaged: {what}; restore it from a backup", .path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file system refused.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
        move |error| OpenError::Io { path: path.to_owned(), error }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// What fjall said while it opened `path`.
    pub(super) fn engine(path: &Path, error: fjall::Error) -> OpenError {
        match error {
            fjall::Error::Locked => OpenError::InUse(path.to_owned()),
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => OpenError::Io { path: path.to_owned(), error },
            other => OpenError::damaged(path, other.to_string()),
        }
    }
}

/// What a failed read means: either the medium is not readable, or its content is damaged.
pub(super) fn read_error(path: &Path, error: fjall::Error) -> StoreError {
    let kind = match &error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) if !is_damage(io) => StoreErrorKind::Unavailable,
        _ => StoreErrorKind::Corrupt,
    };
    StoreError::new(kind, format!("reading {}: {error}", path.display()))
}

/// Files that end early, or are gone, are damage; anything else may be readable later.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

/// Why a store that failed a write takes no more of them.
pub(super) fn halted(path: &Path, error: &fjall::Error) -> StoreError {
    let io = match error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => Some(io.kind()),
        _ => None,
    };
    let (kind, why) = match io {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => (StoreErrorKind::Full, "the disk was full"),
        Some(io::ErrorKind::ReadOnlyFilesystem) => (StoreErrorKind::ReadOnly, "the file system is read-only"),
        _ => (StoreErrorKind::ReadOnly, "a write failed"),
    };
    StoreError::new(kind, format!("{}: {why} ({error}); no write is taken until a restart", path.display()))
}

/// The store was closed.
pub(super) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the store is closed")
}
