//! Chance without a sequence: a number's hash is its draw. SplitMix64's finaliser, which is a
//! bijection of 64 bits (Steele, Lea, Flood 2014), its inverse, and shares of it.

const MULTIPLIERS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const INVERSES: [u64; 2] = [inverse(MULTIPLIERS[0]), inverse(MULTIPLIERS[1])];
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Modulo 2^64, by Newton: each step doubles the bits that are right, from 3.
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut step) = (odd, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Spreads a number over all 64 bits; no two numbers fall together.
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(MULTIPLIERS[0]);
    z = (z ^ (z >> 27)).wrapping_mul(MULTIPLIERS[1]);
    z ^ (z >> 31)
}

/// The number that [`mix`] made `mixed` of.
pub(super) fn unmix(mixed: u64) -> u64 {
    let mut z = mixed ^ (mixed >> 31) ^ (mixed >> 62);
    z = z.wrapping_mul(INVERSES[1]);
    z = z ^ (z >> 27) ^ (z >> 54);
    z = z.wrapping_mul(INVERSES[0]);
    z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_sub(GOLDEN)
}

/// The `number`th draw of an event.
pub(super) fn stream(id: u64, number: u64) -> u64 {
    mix(id ^ number.wrapping_mul(GOLDEN))
}

/// A draw from `0..=max`.
pub(super) fn at_most(draw: u64, max: u64) -> u64 {
    ((u128::from(draw) * (u128::from(max) + 1)) >> 64) as u64
}

/// A part of all, as the draws that belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    below: u64,
}

impl Share {
    /// From a number in `0..=1`.
    pub(crate) fn new(part: f64) -> Share {
        // The cast saturates; 1.0 leaves out one draw in 2^64.
        Share { below: (part * 18_446_744_073_709_551_616.0) as u64 }
    }

    pub(crate) fn is_none(self) -> bool {
        self.below == 0
    }

    pub(crate) fn holds(self, draw: u64) -> bool {
        draw < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_is_undone() {
        for number in (0..10_000).chain([u64::MAX, u64::MAX / 2, GOLDEN, 0u64.wrapping_sub(GOLDEN)]) {
            assert_eq!(unmix(mix(number)), number);
        }
        // SplitMix64 of the seed 0, as published.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn a_share_holds_its_part_of_the_draws() {
        let held = |share: f64| (0..100_000).filter(|n| Share::new(share).holds(mix(*n))).count();
        assert_eq!((held(0.0), held(1.0)), (0, 100_000));
        assert!((29_000..31_000).contains(&held(0.3)), "{}", held(0.3));
    }

    #[test]
    fn draws_reach_their_bounds_and_stay_within() {
        assert_eq!((at_most(0, 9), at_most(u64::MAX, 9), at_most(u64::MAX, u64::MAX), at_most(5, 0)), (0, 9, u64::MAX, 0));
    }
}
