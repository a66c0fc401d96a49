//! An aggregate of a range: every stretch read, verified and folded, then written as rows.

use std::sync::Arc;

use crate::Query;
use crate::aggregate::{Fold, Job, Spec, Steps, TooLarge};
use crate::error::QueryError;
use crate::read::{Asked, Part, Reader, blocking};
use crate::tally::Tally;
use crate::verify::Verified;

/// An aggregate's rows.
#[derive(Debug)]
pub struct Summary {
    /// A JSON array.
    pub rows: Vec<u8>,
    /// What the answer says of itself.
    pub tally: Tally,
}

/// Aggregates the events that are asked for.
pub async fn summarize(query: Arc<Query>, asked: Asked, spec: Spec) -> Result<Summary, QueryError> {
    let mut reader = Reader::open(query.clone(), asked, i64::MAX).await?;
    let steps = Steps::new(reader.range(), spec.step)?;
    let job = Job::new(spec, steps);
    let mut folds = (0..query.settings.fold_threads.max(1)).map(|_| Fold::new(job.clone())).collect::<Result<Vec<_>, _>>()?;
    while let Some(part) = reader.next().await? {
        reader.grow(part.bytes);
        folds = fold(folds, part).await?;
    }
    let (rows, decoded, by_header) = blocking(move || write(folds)).await??;
    query.metrics.rows.inc_by(decoded);
    query.metrics.blocks_by_header.inc_by(by_header);
    Ok(Summary { rows, tally: reader.tally })
}

/// Deals a stretch's partitions out to the folds, which work side by side.
async fn fold(folds: Vec<Fold>, part: Part) -> Result<Vec<Fold>, QueryError> {
    let Part { range, verified, .. } = part;
    let mut hands: Vec<Vec<Verified>> = folds.iter().map(|_| Vec::new()).collect();
    let with_data = verified.into_iter().filter(|verified| !verified.is_empty());
    with_data.enumerate().for_each(|(i, verified)| hands[i % folds.len()].push(verified));
    let work = folds.into_iter().zip(hands).map(|(mut fold, hand)| {
        blocking(move || {
            for verified in hand {
                fold.add(verified, range)?;
            }
            Ok::<Fold, QueryError>(fold)
        })
    });
    futures::future::try_join_all(work).await?.into_iter().collect()
}

/// Joins the folds and writes their rows; gives also the rows decoded and the blocks that needed none.
fn write(folds: Vec<Fold>) -> Result<(Vec<u8>, u64, u64), QueryError> {
    let mut folds = folds.into_iter();
    let Some(mut whole) = folds.next() else { return Err(QueryError::Internal("no fold".into())) };
    folds.try_for_each(|fold| whole.merge(fold))?;
    let mut rows = Vec::new();
    let (decoded, by_header) = (whole.rows, whole.blocks_by_header);
    whole.write(&mut rows);
    Ok((rows, decoded, by_header))
}

impl From<TooLarge> for QueryError {
    fn from(TooLarge(why): TooLarge) -> QueryError {
        QueryError::ResultTooLarge(why)
    }
}
