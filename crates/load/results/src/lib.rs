//! The result of a run: the schema of `results.json`, and the statistics that fill it.
//!
//! The types of the schema are at the top of this crate. `docs/measuring.md` describes them.
//! [`Latency`] makes a [`Summary`] of response times. [`steady`] finds the steady part of a run.
//! [`fit`] fits curves, and [`capacity`] projects them. [`paired`] compares two servers.
//! [`together()`] adds up workloads that ran at once, [`merge()`] the results of several
//! generators.
//!
//! Everything here is plain values: no clock, no files, no sockets.

pub mod capacity;
mod counted;
mod drawn;
pub mod fit;
mod generators;
mod histogram;
pub mod paired;
mod schema;
pub mod steady;
mod study;
mod sums;
mod together;
mod waits;

pub use counted::{Amounts, Counted, CountedClient, CountedCommand, CountedThread};
pub use drawn::*;
pub use generators::{OVERLAP_MIN, merge};
pub use histogram::Latency;
pub use schema::*;
pub use study::*;
pub use together::together;
pub use waits::*;

#[cfg(test)]
mod tests {
    const DOCUMENT: &str = include_str!("../../../../docs/measuring.md");
    const SOURCES: [&str; 5] = [
        include_str!("schema.rs"),
        include_str!("study.rs"),
        include_str!("counted.rs"),
        include_str!("waits.rs"),
        include_str!("drawn.rs"),
    ];

    /// The name of the field that a line of a source declares.
    fn field(line: &str) -> Option<&str> {
        let (name, _) = line.strip_prefix("    pub ")?.split_once(": ")?;
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_').then_some(name)
    }

    #[test]
    fn each_field_of_the_results_is_in_the_document() {
        let section = DOCUMENT.split("\n## ").find(|part| part.starts_with("`results.json`")).unwrap();
        let mut missing = Vec::new();
        for source in SOURCES {
            // The fields of a flattened one are among those of its struct.
            let declared = source.lines().zip(source.lines().skip(1));
            let declared = declared.filter(|(before, _)| before.trim() != "#[serde(flatten)]");
            let names = declared.filter_map(|(_, line)| field(line));
            missing.extend(names.filter(|name| !section.contains(&format!("`{name}`"))));
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
