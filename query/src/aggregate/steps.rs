//! The steps of a range: aligned on the Unix epoch, floored also before 1970, the first and the
//! last clipped to the range.

use braid_shared::limits::ANSWER_ROWS_MAX;
use braid_shared::model::{Span, TimeRange, Timestamp};

use super::TooLarge;

/// Steps of a range; one of the range's length where no step is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    range: TimeRange,
    step: Option<Span>,
    first: i64,
    count: usize,
}

impl Steps {
    /// The steps of `range`; refused, before anything is allocated, where there are too many for an answer.
    pub fn new(range: TimeRange, step: Option<Span>) -> Result<Steps, TooLarge> {
        let Some(width) = step.map(Span::nanos) else { return Ok(Steps { range, step, first: 0, count: 1 }) };
        if range.is_empty() {
            return Ok(Steps { range, step, first: 0, count: 0 });
        }
        let (first, last) = (range.from.nanos().div_euclid(width), (range.to.nanos() - 1).div_euclid(width));
        let count = i128::from(last) - i128::from(first) + 1;
        if count > ANSWER_ROWS_MAX as i128 {
            return Err(TooLarge(format!("{count} steps; an answer has at most {ANSWER_ROWS_MAX} rows")));
        }
        Ok(Steps { range, step, first, count: count as usize })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The range they divide.
    pub fn range(&self) -> TimeRange {
        self.range
    }

    /// The step that holds `ts`, which lies in the range.
    pub fn index(&self, ts: i64) -> usize {
        self.step.map_or(0, |step| (ts.div_euclid(step.nanos()) - self.first) as usize)
    }

    /// What step `index` holds of the range.
    pub fn bounds(&self, index: usize) -> TimeRange {
        let Some(step) = self.step else { return self.range };
        let at = |number: i128| {
            let nanos = number * i128::from(step.nanos());
            Timestamp::from_nanos(nanos.clamp(self.range.from.nanos().into(), self.range.to.nanos().into()) as i64)
        };
        let number = i128::from(self.first) + index as i128;
        TimeRange { from: at(number), to: at(number + 1) }
    }

    /// Cuts ascending times, all in the range, into runs of one step: step and rows.
    pub fn runs<'a>(&'a self, ts: &'a [i64]) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + 'a {
        let mut start = 0;
        std::iter::from_fn(move || {
            let index = self.index(*ts.get(start)?);
            let end = self.bounds(index).to.nanos();
            let rows = start..start + ts[start..].partition_point(|ts| *ts < end);
            start = rows.end;
            Some((index, rows))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(from: i64, to: i64, step: i64) -> Result<Steps, TooLarge> {
        let range = TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) };
        Steps::new(range, Span::from_nanos(step))
    }

    fn bounds(steps: &Steps) -> Vec<(i64, i64)> {
        (0..steps.count()).map(|i| steps.bounds(i)).map(|range| (range.from.nanos(), range.to.nanos())).collect()
    }

    #[test]
    fn steps_are_aligned_on_the_epoch_and_clipped_at_both_ends() {
        assert_eq!(bounds(&steps(-15, 12, 10).unwrap()), [(-15, -10), (-10, 0), (0, 10), (10, 12)]);
        assert_eq!(bounds(&steps(-20, 10, 10).unwrap()), [(-20, -10), (-10, 0), (0, 10)]);
        assert_eq!(bounds(&steps(5, 5, 10).unwrap()), []);
        assert_eq!(bounds(&steps(i64::MIN, i64::MAX, i64::MAX).unwrap()).len(), 3);
    }

    #[test]
    fn too_many_steps_are_refused() {
        assert!(steps(0, 100_000, 1).is_ok());
        assert!(steps(0, 100_001, 1).is_err());
        assert!(steps(i64::MIN, i64::MAX, 1).is_err());
    }

    #[test]
    fn runs_cut_times_where_the_step_changes() {
        let steps = steps(-15, 100, 10).unwrap();
        let runs: Vec<_> = steps.runs(&[-11, -10, -1, 0, 9, 95, 95]).collect();
        assert_eq!(runs, [(0, 0..1), (1, 1..3), (2, 3..5), (11, 5..7)]);
    }
}
