//! The data directory: whose it is, of which format, and that only one process has it.
//!
//! Looks before it touches: a directory that is refused is left as it was.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::OpenError;

const MARK_FILE: &str = "BRAID";
const NEW_MARK_FILE: &str = "BRAID.new";
const LOCK: &str = "LOCK";
const ENGINE: &str = "store";
/// The format this build writes: 2 says that [`super::reach`] covers every block.
const FORMAT: &str = "2";
/// The format before it, which is made into this one.
const FORMAT_BEFORE: &str = "1";

/// An open data directory; locked until dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    /// The directory.
    pub(super) path: PathBuf,
    /// Random bits that mark this directory's commits.
    pub(super) nonce: u64,
    old: bool,
    /// Holds the lock.
    _lock: File,
}

impl DataDir {
    /// Opens a data directory, or makes one where there is nothing.
    pub(super) fn open(path: &Path) -> Result<DataDir, OpenError> {
        let known = read_mark(path)?;
        if known.is_none() {
            refuse_foreign(path)?;
            fs::create_dir_all(path).map_err(OpenError::io(path))?;
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_dir)?;
        }
        let lock = lock(path)?;
        let Mark { nonce, old } = match read_mark(path)? {
            Some(mark) => mark,
            None => write_mark(path, rand::random())?,
        };
        let dir = DataDir { path: path.to_owned(), nonce, old, _lock: lock };
        dir.clear_half_made_engine()?;
        Ok(dir)
    }

    /// Whether the directory is of the format before this build's.
    pub(super) fn is_old(&self) -> bool {
        self.old
    }

    /// Says that the directory is of this build's format now; builds before it refuse it from here on.
    pub(super) fn renew(&self) -> Result<(), OpenError> {
        write_mark(&self.path, self.nonce).map(drop)
    }

    /// Where the engine keeps its files.
    pub(super) fn engine(&self) -> PathBuf {
        self.path.join(ENGINE)
    }

    /// A process that died while it made the engine's directory leaves one without a version file,
    /// which fjall can't open. It is removed if nothing was ever written there.
    fn clear_half_made_engine(&self) -> Result<(), OpenError> {
        let engine = self.engine();
        if !engine.exists() || engine.join("version").exists() {
            return Ok(());
        }
        if !is_blank(&engine).map_err(OpenError::io(&engine))? {
            return Err(OpenError::damaged(&engine.join("version"), "the file is missing"));
        }
        fs::remove_dir_all(&engine).map_err(OpenError::io(&engine))
    }
}

/// Whether an engine's directory holds no data: no keyspace, and journals of zeros only.
fn is_blank(engine: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        let blank = match path.file_name().and_then(|name| name.to_str()) {
            Some("lock") => true,
            Some("keyspaces") => fs::read_dir(&path)?.next().is_none(),
            Some("0.jnl") => is_zero(&path)?,
            _ => false,
        };
        if !blank {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_zero(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// Refuses a directory that holds anything but what an interrupted first start leaves.
fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(OpenError::io(path))?,
    };
    for entry in entries {
        let name = entry.map_err(OpenError::io(path))?.file_name();
        if ![LOCK, NEW_MARK_FILE, MARK_FILE, "lost+found"].iter().any(|known| name == *known) {
            return Err(OpenError::Foreign(path.to_owned()));
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let file = path.join(LOCK);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&file).map_err(OpenError::io(&file))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(OpenError::Io { path: file, error }),
    }
}

/// What the directory says of itself.
#[derive(Clone, Copy, Debug)]
struct Mark {
    nonce: u64,
    old: bool,
}

/// Reads the mark: three lines, the last ending in a newline, so that a mark cut short is no mark.
fn read_mark(path: &Path) -> Result<Option<Mark>, OpenError> {
    let file = path.join(MARK_FILE);
    let text = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => String::from_utf8_lossy(&text.map_err(OpenError::io(&file))?).into_owned(),
    };
    let format = text.strip_prefix("braid data directory\nformat ").and_then(|rest| rest.split_once('\n'));
    match format {
        Some((format @ (FORMAT | FORMAT_BEFORE), rest)) => {
            let nonce = rest.strip_prefix("nonce ").and_then(|rest| rest.strip_suffix('\n'));
            let nonce = nonce.and_then(|nonce| u64::from_str_radix(nonce, 16).ok());
            let mark = nonce.map(|nonce| Mark { nonce, old: format == FORMAT_BEFORE });
            mark.map(Some).ok_or_else(|| OpenError::damaged(&file, "it does not read as a format mark"))
        }
        Some((format, _)) => Err(OpenError::Format { path: path.to_owned(), format: format.chars().take(20).collect() }),
        None => Err(OpenError::Format { path: path.to_owned(), format: "unknown".into() }),
    }
}

/// Writes the mark whole or not at all.
fn write_mark(path: &Path, nonce: u64) -> Result<Mark, OpenError> {
    let (new, mark) = (path.join(NEW_MARK_FILE), path.join(MARK_FILE));
    let write = || -> io::Result<()> {
        let mut file = File::create(&new)?;
        write!(file, "braid data directory\nformat {FORMAT}\nnonce {nonce:016x}\n")?;
        file.sync_all()?;
        fs::rename(&new, &mark)
    };
    write().map_err(OpenError::io(&mark))?;
    sync_dir(path)?;
    Ok(Mark { nonce, old: false })
}

fn sync_dir(path: &Path) -> Result<(), OpenError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(OpenError::io(path))
}
