//! The cost and the savings of compression, single attachments and encryption at rest, on given
//! mail.
//!
//!   cargo run -p posthaste-delivery --example at_rest -- [FOLDER…]
//!
//! Each folder is a corpus: its files are messages. The instrument's mail (`wide`, of a fixed seed)
//! is a corpus, too. Every second message of a corpus trains its dictionary, and the others are
//! measured. CPU is that of this thread, least of five rounds, for each message. `summarize` is the
//! part of a delivery that reads the message once. docs/at-rest.md has the results.

#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::collections::HashSet;
use std::hint::black_box;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use posthaste_load_workload::corpus::{Corpus, Envelope, Sizes, populated_serial};
use posthaste_mime_summary::{Kind, Structure};
use posthaste_store::compressed::{compress, decompress};
use rustix::time::{ClockId, clock_gettime};
use zstd::bulk::{Compressor, Decompressor};

const CLASSES: [(&str, usize); 5] = [
    ("under 2 KiB", 2 << 10),
    ("to 8", 8 << 10),
    ("to 32", 32 << 10),
    ("to 128", 128 << 10),
    ("larger", usize::MAX),
];
const LEVELS: [i32; 3] = [1, 3, 9];
/// The size that zstd's own program makes.
const DICTIONARY_BYTES: usize = 110 << 10;
/// Smaller parts are not worth sharing.
const SHARED_FROM: usize = 4 << 10;

fn cpu_us() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Microseconds of CPU for each item.
fn cost<T>(items: &[T], mut work: impl FnMut(&T)) -> f64 {
    let round = |_| {
        let begun = cpu_us();
        items.iter().for_each(&mut work);
        cpu_us() - begun
    };
    (0..5).map(round).fold(f64::INFINITY, f64::min) / items.len() as f64
}

fn messages(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn generated() -> Vec<Vec<u8>> {
    let (corpus, sizes) = (Corpus::new(1), Sizes::Wide(1.0));
    let message = |n| {
        let mut out = Vec::new();
        let envelope = Envelope { from: "ana@example.org", to: "ben@example.org" };
        corpus.write(populated_serial(1, 1, n), &sizes, envelope, &mut out);
        out
    };
    (0..600).map(message).collect()
}

fn total(messages: &[impl AsRef<[u8]>]) -> f64 {
    messages.iter().map(|message| message.as_ref().len()).sum::<usize>() as f64
}

/// The share that is left, and the CPU to compress and to decompress.
fn level(messages: &[Vec<u8>], level: i32, dictionary: &[u8]) -> String {
    let mut compressor = Compressor::with_dictionary(level, dictionary).unwrap();
    let mut decompressor = Decompressor::with_dictionary(dictionary).unwrap();
    let small: Vec<Vec<u8>> = messages.iter().map(|m| compressor.compress(m).unwrap()).collect();
    let mut room = Vec::with_capacity(32 << 20);
    let compress = cost(messages, |message| {
        room.clear();
        black_box(compressor.compress_to_buffer(message, &mut room).unwrap());
    });
    let decompress = cost(&small, |message| {
        room.clear();
        black_box(decompressor.decompress_to_buffer(message, &mut room).unwrap());
    });
    format!("{:.3}, {compress:.0}, {decompress:.0}", total(&small) / total(messages))
}

fn compression(name: &str, all: &[Vec<u8>]) {
    let (train, test): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    let samples: Vec<&Vec<u8>> = train.iter().map(|(_, m)| *m).filter(|m| m.len() < 64 << 10).collect();
    // A dictionary needs several times its size of samples.
    let most = DICTIONARY_BYTES.min(total(&samples) as usize / 10);
    let dictionary = zstd::dict::from_samples(&samples, most).unwrap_or_default();
    let (count, octets) = (all.len(), total(all));
    println!("\n## {name}: {count} messages, {octets:.0} octets; dictionary of {}\n", dictionary.len());
    println!(
        "| size | messages | octets on average | summarize | level 1: share, µs, µs back | 3 | 9 \
         | level 1, dictionary | 3 | 9 | as stored |"
    );
    println!("| --- |{}", " --- |".repeat(10));
    let mut from = 0;
    for (class, to) in CLASSES {
        let some = test.iter().map(|(_, m)| (*m).clone()).filter(|m| (from..to).contains(&m.len()));
        let some: Vec<Vec<u8>> = some.collect();
        from = to;
        if some.is_empty() {
            continue;
        }
        let summarize = cost(&some, |m| drop(black_box(posthaste_delivery::summarize(m))));
        let stored: Vec<Vec<u8>> = some.iter().filter_map(|m| Some(compress(m)?.to_vec())).collect();
        let plain: usize = some.iter().filter(|m| compress(m).is_none()).map(Vec::len).sum();
        let packed = cost(&some, |m| drop(black_box(compress(m))));
        let unpacked = cost(&stored, |s| drop(black_box(decompress(s))));
        print!("| {class} | {} | {:.0} | {summarize:.0} |", some.len(), total(&some) / some.len() as f64);
        for dictionary in [&[][..], &dictionary] {
            LEVELS.iter().for_each(|n| print!(" {} |", level(&some, *n, dictionary)));
        }
        println!(" {:.3}, {packed:.0}, {unpacked:.0} |", (total(&stored) + plain as f64) / total(&some));
    }
    let kept: f64 = all.iter().map(|m| compress(m).map_or(m.len(), |s| s.len()) as f64).sum();
    println!("\nAs stored, all: {:.3}", kept / octets);
}

/// The share of octets that one stored copy of each attachment would save.
fn single_instances(name: &str, all: &[Vec<u8>]) {
    let (mut seen, mut parts, mut saved, mut worked) = (HashSet::new(), 0.0, 0.0, Vec::new());
    for message in all {
        let structure = Structure::parse(message);
        let leaves =
            structure.parts().iter().filter(|part| !matches!(part.kind, Kind::Multipart | Kind::Message));
        for part in leaves {
            let content = part.body.of(message);
            if content.len() < SHARED_FROM || part.media(message).text_kind().is_some() {
                continue;
            }
            parts += content.len() as f64;
            worked.push(content);
            if !seen.insert(content) {
                saved += content.len() as f64;
            }
        }
    }
    let digest = |part: &&[u8]| {
        black_box(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, part));
    };
    let hash = if worked.is_empty() { 0.0 } else { cost(&worked, digest) };
    println!(
        "| {name} | {:.0} % | {} | {:.1} % | {hash:.0} µs |",
        100.0 * parts / total(all),
        worked.len(),
        100.0 * saved / total(all)
    );
}

/// CPU to seal and open a MiB in frames.
fn encryption() {
    println!("\n| cipher | frame | seal 1 MiB | open 1 MiB |\n| --- | --- | --- | --- |");
    for (name, cipher) in [("AES-256-GCM", &AES_256_GCM), ("ChaCha20-Poly1305", &CHACHA20_POLY1305)] {
        let key = LessSafeKey::new(UnboundKey::new(cipher, &[7; 32]).unwrap());
        let nonce = |n: usize| {
            let mut bytes = [0; NONCE_LEN];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            Nonce::assume_unique_for_key(bytes)
        };
        for frame in [4 << 10, 64 << 10] {
            let mut frames: Vec<Vec<u8>> = vec![vec![7; frame]; (1 << 20) / frame];
            let (mut seal, mut open) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..20 {
                let begun = cpu_us();
                for (n, bytes) in frames.iter_mut().enumerate() {
                    key.seal_in_place_append_tag(nonce(n), Aad::empty(), bytes).unwrap();
                }
                seal = seal.min(cpu_us() - begun);
                let begun = cpu_us();
                for (n, bytes) in frames.iter_mut().enumerate() {
                    let len = key.open_in_place(nonce(n), Aad::empty(), bytes).unwrap().len();
                    bytes.truncate(len);
                }
                open = open.min(cpu_us() - begun);
            }
            println!("| {name} | {} KiB | {seal:.0} µs | {open:.0} µs |", frame >> 10);
        }
    }
}

fn main() {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let mut corpora: Vec<(String, Vec<Vec<u8>>)> =
        folders.iter().map(|folder| (folder.clone(), messages(Path::new(folder)))).collect();
    corpora.push(("generated".to_owned(), generated()));
    for (name, all) in &corpora {
        compression(name, all);
    }
    println!("\n| corpus | attachments' share | of them | saved by one copy of each | SHA-256 of one |");
    println!("| --- |{}", " --- |".repeat(4));
    for (name, all) in &corpora {
        single_instances(name, all);
    }
    encryption();
}
