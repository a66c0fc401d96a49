//! What there is in the model: the catalog's facts, the manifest entry of one bucket, blocks in the
//! store, files in a database, and who works on them. Plain data; `steps.rs` moves it.

use std::collections::{BTreeMap, BTreeSet};

use braid_shared::cold::rules::{Entry, Facts, Nonce};

/// An event; it travels as a block of its own.
pub(crate) type Event = u8;

/// A read of the catalog: when it began, in units of time, and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) began: u8,
    pub(crate) facts: Facts,
}

/// What a file holds, and which blocks its generation archived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct File {
    pub(crate) events: BTreeSet<Event>,
    pub(crate) archived: BTreeSet<Event>,
}

/// The writer of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Writer {
    /// Nothing is sent yet.
    Idle,
    /// The mark was set first, which only a broken writer does.
    Forehanded,
    /// The block is on its way.
    Sent { forehanded: bool },
    /// The store said that it is durable.
    Stored { forehanded: bool },
    /// The view at hand does not do: the mark must stand.
    Marking,
    /// The client was told that it is stored.
    Acked,
    /// The client was told that nobody knows, or the writer is gone; the block may be on its way.
    Unknown,
    /// The client was told that it is too old.
    Refused,
}

/// An archiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Archiver {
    Idle,
    /// It saw at this time that the bucket is due.
    Waiting(u8),
    /// It opened a generation, or (only where broken) is about to, having read already.
    Opened(Nonce, Option<File>),
    /// It read hot and cold side.
    Read(Nonce, File),
    /// Its file stands.
    Wrote(Nonce),
    /// It saw at this time that its generation is published, which replaced these.
    Published(u8, Nonce, Vec<Nonce>),
    /// The archived blocks are deleted.
    Swept(Nonce, Vec<Nonce>),
    /// The replaced files are deleted too.
    Tidied(Nonce),
}

/// A reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    Idle,
    /// A client asked when these were acknowledged.
    Asked(BTreeSet<Event>),
    /// The entry was read, by this view.
    Planned {
        view: View,
        expected: BTreeSet<Event>,
        hot: bool,
        cold: Option<Nonce>,
        found: BTreeSet<Event>,
    },
}

/// What may still happen, so that the model is finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// Units of time that pass.
    pub(crate) ticks: u8,
    /// Generations.
    pub(crate) generations: u8,
    /// Archivers that end before their work does.
    pub(crate) crashes: u8,
    /// Reads.
    pub(crate) asks: u8,
    /// Whether the namespace drops the bucket.
    pub(crate) drops: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) facts: Facts,
    pub(crate) entry: Option<Entry>,
    pub(crate) hot: BTreeSet<Event>,
    pub(crate) flying: BTreeSet<Event>,
    pub(crate) files: BTreeMap<Nonce, File>,
    pub(crate) writers: Vec<Writer>,
    /// What writers know of the catalog: one node.
    pub(crate) writers_view: View,
    pub(crate) archivers: Vec<Archiver>,
    pub(crate) reader: Reader,
    pub(crate) readers_view: View,
    /// When retention saw that its drop stands, until it deleted.
    pub(crate) dropping: Option<u8>,
    pub(crate) left: Left,
    /// Whether a read was answered without an event that was acknowledged before it was asked for.
    pub(crate) short: bool,
    /// Whether a read was answered from a file alone.
    pub(crate) answered_cold: bool,
}

impl World {
    /// Events that clients were told are stored.
    pub(crate) fn acked(&self) -> BTreeSet<Event> {
        (0..).zip(&self.writers).filter(|(_, writer)| **writer == Writer::Acked).map(|(event, _)| event).collect()
    }

    /// The file of the published generation.
    pub(crate) fn published(&self) -> Option<Nonce> {
        Some(self.entry.as_ref()?.published.as_ref()?.nonce)
    }
}
