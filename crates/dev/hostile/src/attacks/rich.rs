//! Rich mail (TNEF) that is made to take much, for an account whose mail is converted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{Random, changed, seeds};

use super::outcome::{Outcome, text};
use crate::stage::{RICH, Stage};

/// A message with these octets as its `winmail.dat`.
fn message(octets: &[u8]) -> Vec<u8> {
    let part = STANDARD.encode(octets);
    let lines: Vec<&str> =
        part.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!(
        "From: a@example.net\r\nSubject: rich\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        lines.join("\r\n")
    )
    .into_bytes()
}

pub fn tnef(stage: &Stage) -> Outcome {
    let seeds = seeds("tnef");
    let mut random = Random::new(7);
    let mut inputs: Vec<Vec<u8>> = (0..stage.of(20, 300)).map(|_| changed(&mut random, &seeds)).collect();
    // Attributes of no octets, and the largest seed as often as a message holds it.
    let head: &[u8] = &[0x78, 0x9f, 0x3e, 0x22, 1, 0];
    let empty: &[u8] = &[1, 0x06, 0x90, 0x08, 0, 0, 0, 0, 0, 0, 0];
    inputs.push([head, &empty.repeat(stage.of(100_000, 1_000_000))].concat());
    if let Some(largest) = seeds.iter().max_by_key(|seed| seed.len()) {
        inputs.push(largest.repeat(stage.of(1 << 20, 10 << 20) / largest.len()));
    }
    for input in &inputs {
        let reply = stage.deliver(RICH, &message(input)).map_err(text)?;
        if !reply.starts_with("250") {
            return Err(format!("rich mail of {} octets: {reply}", input.len()));
        }
    }
    stage.hold()?;
    Ok(format!("{} messages taken", inputs.len()))
}
