//! A small seeded generator: the same seed and stream draw the same numbers on every machine, for ever.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// What numbers are drawn for; one more draw for one of them does not shift the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// Which faults exist, and their rates.
    Menu = 1,
    /// What callers do, and the session they do it in.
    Workload = 2,
    /// What programs do.
    Programs = 3,
    /// When everything is done.
    Times = 4,
}

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut random = Self(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ (stream as u64) << 56);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high bits scaled down: no division, and the bias is below 2^-50 for bounds of this size.
        let (high, bound) = (u128::from(self.next()), u128::from(bound.max(1)));
        u64::try_from((high * bound) >> 64).unwrap_or(0)
    }

    /// From `low` to `high`, both of them included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of 100 draws.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// One of `items`, which is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len() as u64);
        usize::try_from(at).ok().and_then(|at| items.get(at)).copied()
    }

    /// One of `items`, of which there is at least one.
    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, items: [T; N]) -> T {
        const { assert!(N > 0) };
        let at = usize::try_from(self.below(N as u64)).unwrap_or(0);
        items[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_its_seed_and_its_name() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.below(1 << 40)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, Stream::Menu), draw(7, Stream::Menu));
        assert_ne!(draw(7, Stream::Menu), draw(8, Stream::Menu));
        assert_ne!(draw(7, Stream::Menu), draw(7, Stream::Times));
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_both_ends() {
        let mut random = Random::new(1, Stream::Workload);
        let drawn: Vec<u64> = (0..200).map(|_| random.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert!((0..200).all(|_| !random.chance(0)) && (0..200).all(|_| random.chance(100)));
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
