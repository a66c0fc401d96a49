//! What may happen next, and what becomes of the world by it. Whoever is paused takes no step while
//! time passes; what the catalog's documents do is one step, as their compare-and-swap makes it.

use std::collections::BTreeSet;

use braid_shared::cold::rules::{self, Ack, Nonce, Published, Work};
use braid_shared::model::Timestamp;

use crate::rules::{BUCKET, Broken};
use crate::world::{Archiver, Event, File, Reader, View, World, Writer};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Time passes.
    Tick,
    /// The bucket becomes due.
    Close,
    /// Closing goes back, which only a broken catalog does.
    Unclose,
    /// The namespace drops the bucket.
    Drop,
    /// Retention deletes what is dropped.
    DeleteDropped,
    /// The writers' node reads the catalog.
    WritersRefresh,
    /// A writer sets the mark before anything else.
    MarkFirst(Event),
    /// A writer sends a block.
    Send(Event),
    /// A block reaches the store, and its writer hears of it if it still waits.
    Land(Event),
    /// A writer waits no longer, or is gone.
    GiveUp(Event),
    /// A writer looks at its view.
    Ack(Event),
    /// A writer makes sure that the mark stands.
    Mark(Event),
    /// An archiver looks for work, or takes its next step.
    Archive(usize),
    /// An archiver is gone, and one begins in its place.
    Crash(usize),
    /// The reader's node reads the catalog.
    ReaderRefresh,
    /// A client asks.
    Ask,
    /// The reader reads the entry, where its view says that there may be one.
    Plan,
    /// The reader reads the hot side.
    ReadHot,
    /// The reader reads the file.
    ReadCold,
    /// The reader answers, or gives up.
    Answer,
}

pub(crate) fn steps(world: &World, broken: Broken) -> Vec<Step> {
    let mut steps = vec![Step::Tick, Step::Close, Step::Drop, Step::DeleteDropped, Step::WritersRefresh];
    if broken == Broken::ClosingShrinks {
        steps.push(Step::Unclose);
    }
    for event in 0..world.writers.len() as Event {
        if broken == Broken::MarkedBeforeStored {
            steps.push(Step::MarkFirst(event));
        }
        steps.extend([Step::Send(event), Step::Land(event), Step::GiveUp(event), Step::Ack(event), Step::Mark(event)]);
    }
    for archiver in 0..world.archivers.len() {
        steps.extend([Step::Archive(archiver), Step::Crash(archiver)]);
    }
    steps.extend([Step::ReaderRefresh, Step::Ask, Step::Plan, Step::ReadHot, Step::ReadCold, Step::Answer]);
    steps
}

/// The world after a step; none where the step can't be taken.
pub(crate) fn next(world: &World, step: Step, broken: Broken) -> Option<World> {
    let mut next = world.clone();
    let taken = match step {
        Step::Tick => count_down(&mut next.left.ticks).then(|| next.now += 1),
        Step::Close => close(&mut next, BUCKET.to),
        Step::Unclose => (next.facts.closing > Timestamp::MIN).then(|| next.facts.closing = Timestamp::MIN),
        Step::Drop => drop_bucket(&mut next),
        Step::DeleteDropped => delete_dropped(&mut next, broken),
        Step::WritersRefresh => refresh(world, &mut next.writers_view),
        Step::ReaderRefresh if broken == Broken::CountedFromLaterView || !matches!(world.reader, Reader::Planned { .. }) => {
            refresh(world, &mut next.readers_view)
        }
        Step::ReaderRefresh => None,
        Step::Archive(at) => archive(&mut next, at, broken),
        Step::Crash(at) => {
            (next.archivers[at] != Archiver::Idle && count_down(&mut next.left.crashes)).then(|| next.archivers[at] = Archiver::Idle)
        }
        Step::MarkFirst(event) | Step::Send(event) | Step::Land(event) | Step::GiveUp(event) | Step::Ack(event) | Step::Mark(event) => {
            write(&mut next, step, event, broken)
        }
        Step::Ask | Step::Plan | Step::ReadHot | Step::ReadCold | Step::Answer => read(&mut next, step, broken),
    };
    taken.filter(|()| next != *world).map(|()| next)
}

fn count_down(left: &mut u8) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}

fn close(world: &mut World, to: Timestamp) -> Option<()> {
    world.facts.closing = rules::raised(world.facts.closing, to)?;
    Some(())
}

fn drop_bucket(world: &mut World) -> Option<()> {
    world.left.drops.then_some(())?;
    world.facts.dropped = rules::raised(world.facts.dropped, BUCKET.to)?;
    world.dropping = Some(world.now);
    Some(())
}

fn delete_dropped(world: &mut World, broken: Broken) -> Option<()> {
    let since = world.dropping?;
    broken.may_delete_dropped(since, world.now).then_some(())?;
    world.dropping = None;
    world.hot.clear();
    if let Some(entry) = world.entry.take() {
        entry.replaced.iter().chain(&entry.published).for_each(|gone| drop(world.files.remove(&gone.nonce)));
    }
    Some(())
}

fn refresh(world: &World, view: &mut View) -> Option<()> {
    *view = View { began: world.now, facts: world.facts };
    Some(())
}

fn write(world: &mut World, step: Step, event: Event, broken: Broken) -> Option<()> {
    let at = usize::from(event);
    let (now, view) = (world.now, world.writers_view);
    let stage = match (step, world.writers[at]) {
        (Step::MarkFirst(_), Writer::Idle) => {
            mark(world, broken);
            Writer::Forehanded
        }
        (Step::Send(_), from @ (Writer::Idle | Writer::Forehanded)) => {
            world.flying.insert(event);
            Writer::Sent { forehanded: from == Writer::Forehanded }
        }
        (Step::Land(_), from) => {
            world.flying.remove(&event).then_some(())?;
            world.hot.insert(event);
            if let Writer::Sent { forehanded } = from { Writer::Stored { forehanded } } else { from }
        }
        (Step::GiveUp(_), Writer::Sent { .. } | Writer::Stored { .. } | Writer::Marking) => Writer::Unknown,
        (Step::Ack(_), Writer::Stored { forehanded: true }) => Writer::Acked,
        (Step::Ack(_), Writer::Stored { .. }) => match broken.ack(view.facts, view.began, now) {
            Ack::Now => Writer::Acked,
            Ack::Marked => Writer::Marking,
            Ack::Refused => Writer::Refused,
        },
        (Step::Mark(_), Writer::Marking) => {
            mark(world, broken);
            Writer::Acked
        }
        _ => return None,
    };
    world.writers[at] = stage;
    Some(())
}

fn mark(world: &mut World, broken: Broken) {
    if let Some(marked) = broken.marked(world.entry.as_ref()) {
        world.entry = Some(marked);
    }
}

fn archive(world: &mut World, at: usize, broken: Broken) -> Option<()> {
    let now = world.now;
    let stage = match world.archivers[at].clone() {
        Archiver::Idle => look(world, broken)?,
        Archiver::Waiting(since) => {
            broken.may_open(since, now).then_some(())?;
            count_down(&mut world.left.generations).then_some(())?;
            let nonce = Nonce(u128::from(world.left.generations));
            let read = if broken == Broken::ReadBeforeOpened { Some(gather(world)?) } else { None };
            if read.is_none() {
                world.entry = Some(rules::opened(world.entry.as_ref(), nonce));
            }
            Archiver::Opened(nonce, read)
        }
        Archiver::Opened(nonce, Some(read)) => {
            world.entry = Some(rules::opened(world.entry.as_ref(), nonce));
            Archiver::Read(nonce, read)
        }
        // What can't be read whole is given up.
        Archiver::Opened(nonce, None) => gather(world).map_or(Archiver::Idle, |file| Archiver::Read(nonce, file)),
        Archiver::Read(nonce, file) => {
            world.files.insert(nonce, file);
            Archiver::Wrote(nonce)
        }
        Archiver::Wrote(nonce) => publish(world, nonce, broken),
        Archiver::Published(since, nonce, replaced) => {
            broken.may_sweep(since, now).then_some(())?;
            let archived = world.files.get(&nonce).map(|file| file.archived.clone()).unwrap_or_default();
            world.hot.retain(|event| broken != Broken::SweptWhole && !archived.contains(event));
            Archiver::Swept(nonce, replaced)
        }
        Archiver::Swept(nonce, replaced) => {
            replaced.iter().for_each(|gone| drop(world.files.remove(gone)));
            Archiver::Tidied(nonce)
        }
        Archiver::Tidied(nonce) => {
            if let Some(swept) = rules::swept(world.entry.as_ref(), nonce) {
                world.entry = Some(swept);
            }
            Archiver::Idle
        }
    };
    world.archivers[at] = stage;
    Some(())
}

/// What an archiver without work finds to do. It has just read catalog and entry.
fn look(world: &World, broken: Broken) -> Option<Archiver> {
    broken.is_due(world.facts).then_some(())?;
    match rules::work(world.entry.as_ref(), !world.hot.is_empty()) {
        Work::Nothing => None,
        Work::Archive => (world.left.generations > 0).then_some(Archiver::Waiting(world.now)),
        Work::Sweep => {
            let entry = world.entry.as_ref()?;
            let published = rules::sweepable(entry)?;
            Some(Archiver::Published(world.now, published.nonce, entry.replaced.iter().map(|gone| gone.nonce).collect()))
        }
    }
}

/// What the next generation holds: the hot side and what is published.
fn gather(world: &World) -> Option<File> {
    let mut events = world.hot.clone();
    if let Some(published) = world.published() {
        events.extend(&world.files.get(&published)?.events);
    }
    Some(File { events, archived: world.hot.clone() })
}

fn publish(world: &mut World, nonce: Nonce, broken: Broken) -> Archiver {
    let new = Published { nonce, group: 1, table: 0, files: Vec::new(), lists: 0 };
    match broken.published(world.entry.as_ref(), new) {
        Err(_) => Archiver::Idle,
        Ok(entry) => {
            let replaced = entry.replaced.iter().map(|gone| gone.nonce).collect();
            world.entry = Some(entry);
            Archiver::Published(world.now, nonce, replaced)
        }
    }
}

fn read(world: &mut World, step: Step, broken: Broken) -> Option<()> {
    let view = world.readers_view;
    let stage = match (step, world.reader.clone()) {
        (Step::Ask, Reader::Idle) => {
            count_down(&mut world.left.asks).then_some(())?;
            Reader::Asked(world.acked())
        }
        (Step::Plan, Reader::Asked(expected)) => {
            let entry = world.entry.as_ref().filter(|_| rules::is_due(view.facts.closing, BUCKET));
            let sources = broken.sources(entry);
            let cold = entry.and_then(|entry| entry.published.as_ref()).filter(|_| sources.cold).map(|published| published.nonce);
            Reader::Planned { view, expected, hot: sources.hot, cold, found: BTreeSet::new() }
        }
        (Step::ReadHot, Reader::Planned { view, expected, hot: true, cold, mut found }) => {
            found.extend(&world.hot);
            Reader::Planned { view, expected, hot: false, cold, found }
        }
        // A file that is missing is an error, and no answer.
        (Step::ReadCold, Reader::Planned { view, expected, hot, cold: Some(nonce), mut found }) => match world.files.get(&nonce) {
            None => Reader::Idle,
            Some(file) => {
                found.extend(&file.events);
                world.answered_cold |= !hot;
                Reader::Planned { view, expected, hot, cold: None, found }
            }
        },
        (Step::Answer, Reader::Planned { view: planned, expected, hot: false, cold: None, found }) => {
            let counted_from = if broken == Broken::CountedFromLaterView { view } else { planned };
            let counts = broken.in_time(counted_from.began, world.now);
            let cut = rules::is_dropped(planned.facts.dropped, BUCKET);
            world.short |= counts && !cut && !expected.is_subset(&found);
            Reader::Idle
        }
        _ => return None,
    };
    world.reader = stage;
    Some(())
}
