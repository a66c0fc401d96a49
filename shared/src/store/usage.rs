//! What engines tell of their use while it happens, for whoever keeps account of heat.

use crate::partition::Partition;

/// What was too hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Throttle {
    /// The range of keys that a partition stands in: more shards help.
    KeyRange,
    /// The table's own limit: more shards do not help.
    Table,
    /// The account's limit: more shards do not help.
    Account,
    /// The engine did not say.
    Unsaid,
}

impl Throttle {
    /// As a metric's label.
    pub fn name(self) -> &'static str {
        match self {
            Throttle::KeyRange => "key_range",
            Throttle::Table => "table",
            Throttle::Account => "account",
            Throttle::Unsaid => "unsaid",
        }
    }
}

/// Hears of every write of a block. Called often, so it must be quick and never block.
pub trait Usage: Send + Sync {
    /// Blocks of a partition were written, for so many of the engine's write units.
    fn wrote(&self, partition: &Partition, units: f64);

    /// A write to a partition was refused for its rate.
    fn throttled(&self, partition: &Partition, throttle: Throttle);
}
