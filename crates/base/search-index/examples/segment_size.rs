//! What the index costs: reads messages from the files of a directory, or cuts other files into
//! messages of 4 KiB. Prints the size of their segments against their text, and the time of each
//! step for a message. Prints how many messages the index proposes for rare words.
//!
//! `cargo run -p posthaste-search-index --example segment_size -- DIRECTORY [whole]`

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_search_index::{Builder, Collector, Query, Scope, Segment, merge};

const MESSAGE_BYTES: usize = 4096;

fn texts(folder: &Path, all: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            texts(&entry.path(), all)?;
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            all.push(text.to_lowercase());
        }
    }
    Ok(())
}

fn messages(folder: &str, whole: bool) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    texts(Path::new(folder), &mut all)?;
    if whole {
        return Ok(all);
    }
    let joined = all.concat();
    let pieces = joined.as_bytes().chunks(MESSAGE_BYTES);
    Ok(pieces.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect())
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(folder) = arguments.get(1) else {
        eprintln!("name a directory with text files");
        return Ok(());
    };
    let messages = messages(folder, arguments.len() > 2)?;
    let (mut collecting, mut building) = (Duration::ZERO, Duration::ZERO);
    let (mut builder, mut collector) = (Builder::default(), Collector::default());
    let mut segments: Vec<Segment> = Vec::new();
    for (text, uid) in messages.iter().zip(1..) {
        let began = Instant::now();
        collector.add(Scope::Texts, text.as_bytes());
        let terms = collector.finish();
        collecting += began.elapsed();
        let began = Instant::now();
        builder.add(uid, &terms);
        if builder.is_full() {
            segments.push(std::mem::take(&mut builder).build(&[(1, uid)]));
        }
        building += began.elapsed();
    }
    let began = Instant::now();
    segments.push(builder.build(&[]));
    building += began.elapsed();
    let bytes: usize = segments.iter().map(|segment| segment.as_bytes().len()).sum();
    let text: usize = messages.iter().map(String::len).sum();
    println!(
        "{} messages, {text} bytes of text, {} segments of {bytes} bytes",
        messages.len(),
        segments.len()
    );
    println!("{:.1} % of the text", bytes as f64 * 100.0 / text.max(1) as f64);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / messages.len().max(1) as f64;
    println!("{:.1} µs to collect a message, {:.1} µs to build", each(collecting), each(building));
    if let [first, ..] = segments.as_slice() {
        let began = Instant::now();
        let merged = merge(&[first], &[], |_| true).map_or(0, |merged| merged.messages());
        println!("{:.1} µs to merge a message", began.elapsed().as_secs_f64() * 1e6 / merged.max(1) as f64);
    }
    ask(&messages, &segments);
    Ok(())
}

/// Asks for words that three messages have.
fn ask(messages: &[String], segments: &[Segment]) {
    let mut seen: HashMap<&str, Vec<usize>> = HashMap::new();
    for (text, number) in messages.iter().zip(0..) {
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| (5..16).contains(&word.len())) {
            let numbers = seen.entry(word).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
    }
    let rare: Vec<&str> =
        seen.iter().filter(|(_, numbers)| numbers.len() == 3).map(|(word, _)| *word).take(200).collect();
    let (mut spent, mut proposed, mut held) = (Duration::ZERO, 0, 0);
    for word in &rare {
        let began = Instant::now();
        if let Some(query) = Query::new(Scope::Texts, word.as_bytes()) {
            proposed += segments.iter().map(|segment| segment.propose(&query).len()).sum::<usize>();
        }
        spent += began.elapsed();
        held += messages.iter().filter(|text| text.contains(word)).count();
    }
    println!(
        "{} words that three messages have: {proposed} proposed, {held} hold them, {:.1} µs to query all segments",
        rare.len(),
        spent.as_secs_f64() * 1e6 / rare.len().max(1) as f64
    );
}
