//! Why bytes are not the block that was expected. Owns no check, only their outcome.

/// Why bytes are not a sound block, or not the block that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Not a block, cut short, or altered.
    #[error("damaged block: {0}")]
    Damaged(&'static str),
    /// A format this build does not know.
    #[error("block format {0} is not known to this build")]
    Format(u16),
    /// Sound, but of another partition, version, N or suffix than planned, or with events outside its bucket.
    #[error("block of another place: {0}")]
    Misplaced(&'static str),
}
