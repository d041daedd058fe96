//! Numbers that look random and repeat for a seed. Every run says its seed.

/// splitmix64: 64 bits of state, good enough to spread think times.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each name, so that one draw more does not move the others.
    pub(crate) fn new(seed: u64, stream: &[u64]) -> Self {
        stream.iter().fold(Self(seed), |random, &part| {
            let mut mixed = Self(random.0 ^ part.wrapping_mul(0xd134_2543_de82_ef95));
            Self(mixed.next())
        })
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 up to, not including, 1.
    // 53 bits fit a float exactly.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high.saturating_sub(low)) + 1;
        low + u32::try_from(self.next() % span).unwrap_or(0)
    }
}
