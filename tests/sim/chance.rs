//! The one source of chance of a run: splitmix64, whose numbers no release of a library changes, so
//! that a seed that is kept as a test stays the same run.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A stream of its own for a part of the run, so that one part's draws do not move another's.
    pub(crate) fn fork(&mut self) -> Chance {
        Chance(self.bits())
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// A number in `from..to`.
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from) as u64) as i64
    }

    /// True so many times in a million.
    pub(crate) fn happens(&mut self, in_a_million: u64) -> bool {
        self.below(1_000_000) < in_a_million
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
