//! Fuzz targets as plain tests on the stable toolchain: a target gets its seeds, which lie in
//! `fuzz/seeds/NAME`, and then this many changed ones. `cargo fuzz` begins with the same seeds, and
//! runs until it is stopped.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use crate::Random;

/// Runs a target over the seeds of `fuzz/seeds/NAME` and over `rounds` inputs made from them, which
/// are the same at every run. The input that a target panics on is printed.
pub fn fuzz_seeds(name: &str, rounds: usize, target: impl Fn(&[u8])) {
    let seeds = seeds(name);
    let run = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
            eprintln!("{name} failed on b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
    };
    seeds.iter().for_each(|seed| run(seed));
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for _ in 0..rounds {
        run(&changed(&mut random, &seeds));
    }
}

/// The files of a target's seeds, by name. Panics if there are none.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds")).join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a folder that can be read").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{}: no seeds", folder.display());
    files.iter().map(|file| std::fs::read(file).expect("a seed that can be read")).collect()
}

/// One of the inputs with a few changes: bytes, numbers, pieces of others, repetitions.
pub fn changed(random: &mut Random, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[random.below(inputs.len())].clone();
    for _ in 0..1 + random.below(6) {
        change(random, inputs, &mut bytes);
    }
    bytes
}

fn change(random: &mut Random, inputs: &[Vec<u8>], bytes: &mut Vec<u8>) {
    const NUMBERS: [&str; 6] =
        ["0", "-1", "4294967296", "18446744073709551615", "99999999999999999999", "1e9"];
    let at = random.below(bytes.len() + 1);
    let piece = |random: &mut Random, of: &[u8]| {
        let from = random.below(of.len() + 1);
        of[from..(from + 1 + random.below(40)).min(of.len())].to_vec()
    };
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = [0, b'\n', b'\r', 0x7f, 0x80, 0xff][random.below(6)],
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.below(256) as u8),
        4 => {
            let end = (at + 1 + random.below(8)).min(bytes.len());
            bytes.drain(at..end);
        }
        5 => {
            let number = random.pick(&NUMBERS);
            bytes.splice(at..at, number.bytes());
        }
        6 => {
            let own = piece(random, bytes);
            let times = 1 + random.below(50);
            bytes.splice(at..at, own.repeat(times));
        }
        _ => {
            let other = &inputs[random.below(inputs.len())];
            let piece = piece(random, other);
            bytes.splice(at..at, piece);
        }
    }
}
