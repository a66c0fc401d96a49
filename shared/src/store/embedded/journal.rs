//! Reads the engine's journals before the engine does, and tells a torn tail from damage.
//!
//! fjall ends a journal at the first record that does not read, silently; what follows is cut
//! off. That is right for a commit that was being written when the power went, and wrong for a
//! byte that rotted under acknowledged ones. The two differ in what follows: a commit is begun
//! only after the one before it was synced, so **a sound commit behind a damaged one proves that
//! the damaged one was acknowledged**. The committer also repeats its last mark, unsynced, when it
//! falls idle, so that the proof covers the last commit too, short of a power cut at that moment.
//!
//! Format (fjall 3): start `1 items:u32 seqno:u64`, items `2 type:u8 compression:u8 keyspace:u64
//! key:u16 value:u32 stored:u32 key value`, or `4 keyspace:u64`, end `3 xxh3:u64 "FJL" 3`; little-endian.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::commit::Mark;
use super::failure::OpenError;
use super::keys::COMMIT_MARK;

const TRAILER: [u8; 4] = [b'F', b'J', b'L', 3];
/// Most items of a commit that are believed; the committer takes far fewer.
const ITEMS_MAX: u32 = 1 << 24;

/// A sound commit as it stands in a journal.
#[derive(Clone, Copy, Debug)]
struct Found {
    bytes: u64,
    mark: Option<Mark>,
}

/// Checks every journal of an engine; cuts a torn tail off the newest one, and says so.
pub(super) fn check(engine: &Path, nonce: u64) -> Result<(), OpenError> {
    let journals = list(engine)?;
    let mut last: Option<Mark> = None;
    for (index, path) in journals.iter().enumerate() {
        let newest = index + 1 == journals.len();
        check_one(path, newest, nonce, &mut last)?;
    }
    Ok(())
}

/// The journals, oldest first.
fn list(engine: &Path) -> Result<Vec<PathBuf>, OpenError> {
    if !engine.exists() {
        return Ok(Vec::new());
    }
    let mut journals = Vec::new();
    for entry in fs::read_dir(engine).map_err(OpenError::io(engine))? {
        let path = entry.map_err(OpenError::io(engine))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse::<u64>().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

fn check_one(path: &Path, newest: bool, nonce: u64, last: &mut Option<Mark>) -> Result<(), OpenError> {
    let file = File::open(path).map_err(OpenError::io(path))?;
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut sound = 0;
    while let Some(found) = read_commit(&mut reader).map_err(OpenError::io(path))? {
        sound += found.bytes;
        check_order(path, found.mark, nonce, last)?;
    }
    reader.seek(SeekFrom::Start(sound)).map_err(OpenError::io(path))?;
    let tail = written(&mut reader).map_err(OpenError::io(path))?;
    if tail.is_empty() {
        return Ok(());
    }
    let at = |what: &str| OpenError::damaged(path, format!("{what} at byte {sound}"));
    if !newest {
        return Err(at("a commit that was acknowledged does not read"));
    }
    if later_commit(&tail, nonce) {
        return Err(at("a commit that was acknowledged, since others follow it, does not read"));
    }
    tracing::warn!(file = %path.display(), at = sound, bytes = tail.len(), "dropped the torn end of a journal, which was never acknowledged");
    cut(path, sound).map_err(OpenError::io(path))
}

/// Commits are numbered without a gap, from one journal to the next.
fn check_order(path: &Path, mark: Option<Mark>, nonce: u64, last: &mut Option<Mark>) -> Result<(), OpenError> {
    let Some(mark) = mark else { return Ok(()) };
    if mark.nonce != nonce {
        return Err(OpenError::damaged(path, "it belongs to another data directory"));
    }
    if last.is_some_and(|last| mark.commit != last.commit && mark.commit != last.commit + 1) {
        return Err(OpenError::damaged(path, format!("commits are missing before number {}", mark.commit)));
    }
    *last = Some(mark);
    Ok(())
}

/// What follows, up to the last byte that is not zero: a journal's file is made longer than what
/// is in it, and what was never written reads as zeros.
fn written(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut tail, mut zeros, mut buffer) = (Vec::new(), 0, vec![0; 1 << 16]);
    loop {
        let part = match from.read(&mut buffer)? {
            0 => return Ok(tail),
            bytes => &buffer[..bytes],
        };
        let Some(last) = part.iter().rposition(|byte| *byte != 0) else {
            zeros += part.len();
            continue;
        };
        tail.resize(tail.len() + zeros, 0);
        tail.extend_from_slice(&part[..=last]);
        zeros = part.len() - last - 1;
    }
}

fn cut(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length)?;
    file.sync_all()
}

/// Whether a sound commit of this directory stands anywhere in `tail`. Only marked ones count, so
/// that no value a client sent can pass for one.
fn later_commit(tail: &[u8], nonce: u64) -> bool {
    let starts = memchr::memchr_iter(1, tail).filter(|at| tail.get(at + 13) == Some(&2));
    starts.into_iter().any(|at| {
        let found = read_commit(&mut &tail[at..]).ok().flatten();
        found.and_then(|found| found.mark).is_some_and(|mark| mark.nonce == nonce)
    })
}

/// Reads one commit; `None` where what stands here is none, or is cut short.
fn read_commit(from: &mut impl Read) -> io::Result<Option<Found>> {
    match try_read_commit(from) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other,
    }
}

fn try_read_commit(from: &mut impl Read) -> io::Result<Option<Found>> {
    let [1, head @ ..] = take::<13>(from)? else { return Ok(None) };
    let items = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if items > ITEMS_MAX {
        return Ok(None);
    }
    let mut found = Found { bytes: 13, mark: None };
    let mut hasher = Xxh3::new();
    for index in 0..items {
        let item = match take::<1>(from)? {
            [2] => read_item(from, &mut hasher, index == 0, &mut found.mark)?,
            [4] => read_clear(from, &mut hasher)?,
            _ => None,
        };
        let Some(bytes) = item else { return Ok(None) };
        found.bytes += bytes;
    }
    let [3, end @ ..] = take::<13>(from)? else { return Ok(None) };
    let (checksum, trailer) = end.split_at(8);
    let sound = trailer == TRAILER && checksum == hasher.digest().to_le_bytes();
    found.bytes += 13;
    Ok(sound.then_some(found))
}

/// Reads an item behind its tag; gives its length with the tag.
fn read_item(from: &mut impl Read, hasher: &mut Xxh3, first: bool, mark: &mut Option<Mark>) -> io::Result<Option<u64>> {
    let head = take::<20>(from)?;
    let key = usize::from(u16::from_le_bytes([head[10], head[11]]));
    let stored = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
    if head[1] != 0 {
        return Ok(None);
    }
    hasher.update(&[2]);
    hasher.update(&head);
    if first && key == COMMIT_MARK.len() && stored == Mark::BYTES {
        let body = take::<{ COMMIT_MARK.len() + Mark::BYTES }>(from)?;
        hasher.update(&body);
        *mark = body.strip_prefix(COMMIT_MARK).and_then(Mark::decode);
    } else {
        hash_through(from, hasher, key + stored)?;
    }
    Ok(Some(21 + (key + stored) as u64))
}

fn read_clear(from: &mut impl Read, hasher: &mut Xxh3) -> io::Result<Option<u64>> {
    let keyspace = take::<8>(from)?;
    hasher.update(&[4]);
    hasher.update(&keyspace);
    Ok(Some(9))
}

fn hash_through(from: &mut impl Read, hasher: &mut Xxh3, mut bytes: usize) -> io::Result<()> {
    let mut buffer = [0; 8192];
    while bytes > 0 {
        let part = &mut buffer[..bytes.min(8192)];
        from.read_exact(part)?;
        hasher.update(part);
        bytes -= part.len();
    }
    Ok(())
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
