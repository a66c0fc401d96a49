//! The flags of `run`.

use std::time::Duration;

use braid_shared::limits::STRING_BYTES_MAX;
use braid_shared::model::{Namespace, Span, Timestamp};

use super::values::{Rate, Reads, ShareBack, share};
use super::{ClientArgs, batch};
use crate::client::{Encoding, Format, ServerKind, Suffix};
use crate::report::OutputArgs;
use crate::schedule::Schedule;
use crate::workload::{Choice, Keys, ReadMix, Shape, Share};

const SUFFIXES_DEFAULT: u32 = 16;
const CQL_NODES_DEFAULT: &str = "127.0.0.1:9042";
const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Bytes of an event as JSON without its key and note.
const EVENT_BYTES: usize = 114;
const RATE_HELP: &str = "\
How many events are offered a second, whatever the server does:

  20k                   a constant rate (k, M: thousands, millions)
  10k/30s,50k/30s       steps, each as long as it says
  10k..200k/30s         a ramp; legs may be mixed, 0/10s is a pause
  max                   a closed loop: each connection sends when it was answered
  0                     no events, for reads alone

Latency counts from the time a request was due, so that waiting behind a slow one shows.";
const READS_HELP: &str = "\
Reads beside the writes:

  10%                   a share of all requests, on the connections of the writes
  200, 50..500/30s      requests a second, as in --rate, on connections of their own
  max                   as many as are answered, on connections of their own";

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// What is driven: Braid, a peer that is measured beside it, or a baseline of what one writes by hand
    #[arg(long, value_enum, default_value_t = ServerKind::Braid)]
    pub(crate) target: ServerKind,
    /// Namespace to write to; of others, the database, table or keyspace
    #[arg(long, value_name = "NAME", default_value = "bench")]
    pub(crate) namespace: Namespace,

    /// The hot key; with more keys, what their names begin with [default: hot; with --daily none]
    #[arg(long, help_heading = "Events")]
    pub(crate) key: Option<String>,
    /// How many keys the events are spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000), help_heading = "Events")]
    pub(crate) keys: u32,
    /// Spread them by Zipf's law with this exponent, not evenly
    #[arg(long, value_name = "S", value_parser = exponent, requires = "keys", help_heading = "Events")]
    pub(crate) zipf: Option<f64>,
    /// The key of an event is its UTC date
    #[arg(long, conflicts_with_all = ["keys", "zipf", "hot_at"], help_heading = "Events")]
    pub(crate) daily: bool,
    /// From this long after the beginning the first key is hot
    #[arg(long, value_name = "SPAN", requires = "keys", help_heading = "Events")]
    pub(crate) hot_at: Option<Span>,
    /// How many of the events are the hot key's then
    #[arg(long, value_name = "SHARE", default_value = "90%", value_parser = share, help_heading = "Events")]
    pub(crate) hot_share: Share,
    /// Events that come late, by up to a span
    #[arg(long, value_name = "SHARE[:SPAN=1h]", help_heading = "Events")]
    pub(crate) late: Option<ShareBack>,
    /// Events that are out of order, by up to a span
    #[arg(long, value_name = "SHARE[:SPAN=1s]", help_heading = "Events")]
    pub(crate) out_of_order: Option<ShareBack>,
    /// Events that are one of the last 10,000 sent again
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Events")]
    pub(crate) duplicates: Option<Share>,
    /// Ids that count up, in place of random ones
    #[arg(long, help_heading = "Events")]
    pub(crate) counted_ids: bool,
    /// Bytes of an event as JSON, about [default: some 120]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=STRING_BYTES_MAX as i64), help_heading = "Events")]
    pub(crate) event_bytes: Option<u32>,
    /// Event time of the beginning, RFC 3339 or milliseconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Events")]
    pub(crate) start: Option<Timestamp>,
    /// Event time from one event to the next [default: as time passes in the run]
    #[arg(long, value_name = "SPAN", help_heading = "Events")]
    pub(crate) spacing: Option<Span>,
    /// Makes the same ids, keys and values again; with --start, and --spacing or a rate, the same times too
    #[arg(long, value_name = "N", help_heading = "Events")]
    pub(crate) seed: Option<u64>,

    /// Events a second, or max [default: 10k]
    #[arg(long, allow_negative_numbers = true, long_help = RATE_HELP, default_value = "10k", hide_default_value = true, help_heading = "Load")]
    pub(crate) rate: Rate,
    /// Events a request [default: 100; with --rate max 1000]
    #[arg(long, value_name = "EVENTS", value_parser = batch, help_heading = "Load")]
    pub(crate) batch: Option<usize>,
    /// Connections that send at the same time, one request in flight on each
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Load")]
    pub(crate) connections: u16,
    /// How long to go on after the warm-up [default: as long as the rate says, else until --events, else 10s]
    #[arg(long, value_name = "SPAN", help_heading = "Load")]
    pub(crate) duration: Option<Span>,
    /// How many events to write at most
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) events: Option<u64>,
    /// Time at the beginning that is not counted
    #[arg(long, value_name = "SPAN", help_heading = "Load")]
    pub(crate) warmup: Option<Span>,
    /// Requests that could not leave within this time of theirs are skipped and counted
    #[arg(long, value_name = "SPAN", default_value = "30s", help_heading = "Load")]
    pub(crate) max_lag: Span,
    /// How events are written [default: ndjson; peers have a format of their own]
    #[arg(long, value_enum, help_heading = "Load")]
    pub(crate) format: Option<Format>,
    /// How requests are compressed
    #[arg(long, value_enum, default_value_t = Encoding::None, help_heading = "Load")]
    pub(crate) encoding: Encoding,

    /// Reads beside the writes: 10%, 200, max
    #[arg(long, long_help = READS_HELP, help_heading = "Reads")]
    pub(crate) reads: Option<Reads>,
    /// What is read: last, last:N, range, point (by id and time), id (by id alone), dashboard
    #[arg(long, value_name = "KIND", default_value = "dashboard", help_heading = "Reads")]
    pub(crate) read: ReadMix,
    /// So many events of this seed, --start and --spacing are stored already: reads draw on them
    #[arg(long, value_name = "EVENTS", default_value_t = 0, requires_all = ["seed", "start", "spacing"], help_heading = "Reads")]
    pub(crate) known: u64,
    /// Connections for reads that have a rate of their own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Reads")]
    pub(crate) read_connections: u16,

    /// dynamodb-items: where DynamoDB is [default: by the AWS SDK's own settings, as are region and credentials]
    #[arg(long, value_name = "URL", value_parser = endpoint, help_heading = "Baselines")]
    pub(crate) dynamodb_endpoint: Option<String>,
    /// dynamodb-items: suffixes that a key's events are spread over; 1 for a plain partition key [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Baselines")]
    pub(crate) suffixes: Option<u32>,
    /// dynamodb-items: how an event finds its suffix [default: computed]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Baselines")]
    pub(crate) suffix: Option<Suffix>,
    /// cql-rows: nodes to begin with, HOST:PORT parted by commas; each holds a copy [default: 127.0.0.1:9042]
    #[arg(long, value_name = "ADDRS", help_heading = "Baselines")]
    pub(crate) cql_nodes: Option<String>,

    /// Afterwards read everything back: what was acknowledged must be there, once and as it was sent,
    /// and nothing else; faults end with exit code 2. Keeps 4 bits an event, 1 GiB at 2 billion; 8 bytes
    /// a request more where event times are the clock's. Wants a key that has no events of this time yet
    #[arg(long, help_heading = "Verification")]
    pub(crate) verify: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

impl RunArgs {
    /// Events a request.
    pub(crate) fn batch(&self) -> u64 {
        self.batch.unwrap_or(if self.rate == Rate::Max { 1_000 } else { 100 }) as u64
    }

    pub(crate) fn cql_nodes(&self) -> &str {
        self.cql_nodes.as_deref().unwrap_or(CQL_NODES_DEFAULT)
    }

    pub(crate) fn suffixes(&self) -> u32 {
        self.suffixes.unwrap_or(SUFFIXES_DEFAULT)
    }

    pub(crate) fn warmup(&self) -> Duration {
        self.warmup.map_or(Duration::ZERO, Span::duration)
    }

    /// When the run is over, warm-up included; `None` where only the events end it.
    pub(crate) fn until(&self) -> Option<Duration> {
        let ends = match (&self.rate, &self.reads) {
            (Rate::At(schedule), _) | (Rate::Nothing, Some(Reads::Rate(Rate::At(schedule)))) => schedule.ends(),
            _ => None,
        };
        let events_end_it = self.events.is_some() && self.rate != Rate::Nothing;
        let counted = |duration: Duration| duration + self.warmup();
        self.duration.map(|span| counted(span.duration())).or(ends).or_else(|| (!events_end_it).then(|| counted(DURATION_DEFAULT)))
    }

    pub(crate) fn schedule(&self) -> Option<Schedule> {
        match &self.rate {
            Rate::At(schedule) => Some(schedule.clone()),
            Rate::Max | Rate::Nothing => None,
        }
    }

    pub(crate) fn keys(&self) -> Keys {
        let choice = match self.zipf {
            _ if self.daily => Choice::Daily,
            Some(s) => Choice::Zipf(self.keys, s),
            None if self.keys == 1 => Choice::One,
            None => Choice::Uniform(self.keys),
        };
        Keys::new(self.key.as_deref().unwrap_or(if self.daily { "" } else { "hot" }), choice)
    }

    /// What events are like; `start` is the event time of the beginning in milliseconds.
    pub(crate) fn shape(&self, start: i64) -> Shape {
        let back = |back: Option<ShareBack>, default: Span| {
            back.map_or((Share::default(), 0), |back| (back.share, millis(back.by.unwrap_or(default)).max(1)))
        };
        let bare = EVENT_BYTES + self.keys().name(0).len();
        // The note's own name and quotes take ten bytes.
        let note = self.event_bytes.map_or(0, |bytes| (bytes as usize).saturating_sub(bare + 10));
        Shape {
            late: back(self.late, Span::HOUR),
            disorder: back(self.out_of_order, Span::SECOND),
            duplicates: self.duplicates.unwrap_or_default(),
            hot_at: self.hot_at.map(|at| (start.saturating_add(millis(at)), self.hot_share)),
            note_bytes: note,
            counted_ids: self.counted_ids,
        }
    }
}

fn millis(span: Span) -> i64 {
    span.nanos() / 1_000_000
}

fn endpoint(text: &str) -> Result<String, String> {
    let sound = ["http://", "https://"].iter().any(|scheme| text.len() > scheme.len() && text.starts_with(scheme));
    if sound { Ok(text.to_owned()) } else { Err("must be http://HOST[:PORT] or https://HOST[:PORT]".into()) }
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..=10.0).contains(&s) => Ok(s),
        _ => Err("must be 0 (even) to 10; 1 is Zipf's own".into()),
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    use braid_shared::model::Precision;
    let parsed = match text.parse() {
        Ok(millis) => Timestamp::from_int(millis, Precision::Millis),
        Err(_) => Timestamp::parse_rfc3339(text),
    };
    parsed.map_err(|error| format!("`{text}`: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Args, Command};
    use super::*;

    fn run(words: &[&str]) -> RunArgs {
        match Args::parse_from([&["braid-load", "run"], words].concat()).command {
            Command::Run(args) => *args,
            other => unreachable!("the words say run: {other:?}"),
        }
    }

    #[test]
    fn a_run_ends_by_its_time_its_rate_or_its_events() {
        let seconds = |words| run(words).until().map(|until| until.as_secs());
        assert_eq!(seconds(&[]), Some(10));
        assert_eq!(seconds(&["--warmup", "5s"]), Some(15));
        assert_eq!(seconds(&["--duration", "20s", "--warmup", "5s"]), Some(25));
        assert_eq!(seconds(&["--rate", "1k/20s,2k/10s"]), Some(30));
        assert_eq!(seconds(&["--rate", "max", "--events", "5"]), None);
        assert_eq!(seconds(&["--rate", "0", "--events", "5"]), Some(10));
        assert_eq!(seconds(&["--rate", "0", "--reads", "5..50/30s"]), Some(30));
    }

    #[test]
    fn an_event_is_as_long_as_was_asked() {
        let args = run(&["--event-bytes", "500"]);
        let shape = args.shape(0);
        let times = crate::workload::EventTimes::spaced(1_700_000_000_000, 1);
        let workload = crate::workload::Workload::new(1, args.keys(), shape, times);
        let body = crate::workload::write::Writer::new(workload, Format::Ndjson).body(crate::workload::Portion { first: 0, events: 1_000 });
        assert!((495..=505).contains(&(body.len() / 1_000)), "{}", body.len() / 1_000);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for words in [
            &["--daily", "--keys", "5"][..],
            &["--zipf", "-1"],
            &["--rate", "fast"],
            &["--start", "yesterday"],
            &["--zipf", "1"],
            &["--dynamodb-endpoint", "localhost:8000"],
        ] {
            assert!(Args::try_parse_from([&["braid-load", "run"], words].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_beginning_is_a_date_or_milliseconds() {
        assert_eq!(time("2023-11-14T22:13:20Z"), time("1700000000000"));
    }
}
