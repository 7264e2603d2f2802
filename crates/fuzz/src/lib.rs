//! Fuzzes parsers of untrusted bytes with mutated samples.
//!
//! Compiled for tests only. A round depends only on the seed and its number, so that it can be
//! repeated; a plain test run has a fixed number of rounds. `FUZZ_SECONDS` lets each target run
//! longer, `FUZZ_SEED` sets another seed, `FUZZ_ROUND` repeats one round, and `FUZZ_TRACE` prints
//! each round before it starts, for failures that end the whole process.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// The seed of each plain test run.
const SEED: u64 = 0x5eed;

/// The longest input: quadratic run time would be noticed.
const LONGEST: usize = 64 * 1024;

/// Tokens for JSON documents of Terraform: syntax, numbers at the limits of types, and words of a plan.
pub const JSON_TOKENS: &[&[u8]] = &[
    b"{",
    b"[",
    b"\"",
    b",",
    b"null",
    b"18446744073709551616",
    b"\"no-op\"",
    b"\"forget\"",
    b"\\n",
    b"-1",
];

/// A parser to fuzz.
pub struct Target<'a> {
    /// Its name in a failure.
    pub name: &'a str,
    /// Valid inputs, or nearly valid ones.
    pub samples: &'a [&'a [u8]],
    /// Tokens with a meaning in such inputs.
    pub tokens: &'a [&'a [u8]],
    /// The rounds of a plain test run.
    pub rounds: u64,
}

impl Target<'_> {
    /// Calls `check` with one mutated input after another, and with the round's random numbers for
    /// the choices of `check` itself.
    pub fn run(&self, mut check: impl FnMut(&[u8], &mut fastrand::Rng)) {
        let seed = variable("FUZZ_SEED").unwrap_or(SEED);
        let end = variable("FUZZ_SECONDS").map(|it| Instant::now() + Duration::from_secs(it));
        let only = variable("FUZZ_ROUND");
        let trace = variable("FUZZ_TRACE").is_some();
        let mut round = only.unwrap_or(0);
        loop {
            let mut random =
                fastrand::Rng::with_seed(seed ^ round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let input = self.mutated(&mut random);
            let repeat = format!("{}: FUZZ_SEED={seed} FUZZ_ROUND={round}", self.name);
            if trace {
                say(&repeat);
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input, &mut random))) {
                say(&format!("{repeat}, input: {}", input.escape_ascii()));
                resume_unwind(panic);
            }
            round += 1;
            let done = end.map_or(round >= self.rounds, |end| Instant::now() >= end);
            if only.is_some() || done {
                return;
            }
        }
    }

    fn mutated(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut input = random.choice(self.samples).map_or_else(Vec::new, |it| it.to_vec());
        // Now and then a sample as it is: that it is still right has to be seen too.
        for _ in 0..random.usize(..6) {
            self.mutate(&mut input, random);
            input.truncate(LONGEST);
        }
        input
    }

    fn mutate(&self, input: &mut Vec<u8>, random: &mut fastrand::Rng) {
        let place = random.usize(..=input.len());
        let length = random.usize(..=(input.len() - place).min(64));
        let range = place..place + length;
        match random.u8(..10) {
            0 => input.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << random.u8(..8)),
            1 => input.iter_mut().skip(place).take(1).for_each(|byte| *byte = random.u8(..)),
            2 => drop(input.drain(range)),
            3 => input.truncate(place),
            4 => {
                let noise: Vec<u8> = (0..random.usize(1..9)).map(|_| random.u8(..)).collect();
                input.splice(place..place, noise);
            }
            5 => {
                let piece = input[range].to_vec();
                let times = random.usize(1..4);
                input.splice(place..place, piece.repeat(times));
            }
            6 => {
                let other = random.choice(self.samples).copied().unwrap_or_default();
                let from = random.usize(..=other.len());
                input.truncate(place);
                input.extend_from_slice(&other[from..]);
            }
            7 => {
                // Deep nesting, long names, many lines.
                let token = random.choice(self.tokens).copied().unwrap_or(b"x");
                input.splice(place..place, token.repeat(random.usize(1..3000)));
            }
            _ => {
                let token = random.choice(self.tokens).copied().unwrap_or_default();
                input.splice(range, token.iter().copied());
            }
        }
    }
}

/// Bypasses the capture of the test harness, whose output is lost if the process is killed.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn variable(name: &str) -> Option<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "set by the developer who fuzzes; tests have no settings"
    )]
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_reproducible_and_distinct() {
        let target = Target { name: "", samples: &[b"sample"], tokens: &[b"token"], rounds: 50 };
        let inputs = || {
            let mut inputs = Vec::new();
            target.run(|input, _| inputs.push(input.to_vec()));
            inputs
        };
        let first = inputs();
        assert_eq!(first, inputs());
        assert!(first.iter().any(|input| input == b"sample"));
        assert!(first.iter().collect::<std::collections::BTreeSet<_>>().len() > 30);
    }
}
