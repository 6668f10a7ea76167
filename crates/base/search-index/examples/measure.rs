//! What the index costs: cuts the files of a directory into messages of 4 KiB, and prints the size
//! of their segments against their text, and the time of collecting and building for each message.
//!
//! `cargo run -p posthaste-search-index --example measure -- DIRECTORY`

use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_search_index::{Builder, Grams};

const MESSAGE_BYTES: usize = 4096;

fn texts(folder: &Path, all: &mut Vec<u8>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            texts(&entry.path(), all)?;
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            all.extend(text.to_ascii_lowercase().bytes());
        }
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("name a directory with text files");
        return Ok(());
    };
    let mut all = Vec::new();
    texts(Path::new(&folder), &mut all)?;
    let (mut collecting, mut building) = (Duration::ZERO, Duration::ZERO);
    let (mut builder, mut grams) = (Builder::default(), Grams::default());
    let (mut segments, mut messages) = (Vec::new(), 0);
    for (text, uid) in all.chunks_exact(MESSAGE_BYTES).zip(1..) {
        let began = Instant::now();
        grams.add(text);
        builder.add(uid, &grams);
        grams.clear();
        collecting += began.elapsed();
        messages = uid;
        if builder.is_full() {
            let began = Instant::now();
            segments.push(std::mem::take(&mut builder).build());
            building += began.elapsed();
        }
    }
    let began = Instant::now();
    segments.push(builder.build());
    building += began.elapsed();
    let bytes: usize = segments.iter().map(|segment| segment.as_bytes().len()).sum();
    let text = messages as usize * MESSAGE_BYTES;
    println!("{messages} messages, {text} bytes of text, {} segments of {bytes} bytes", segments.len());
    println!("{:.1} % of the text", bytes as f64 * 100.0 / text.max(1) as f64);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(messages.max(1));
    println!("{:.1} µs to collect a message, {:.1} µs to build", each(collecting), each(building));
    Ok(())
}
