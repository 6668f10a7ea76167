//! How the memory that the server may use is shared out. The worst case is the sum of all parts: it
//! is logged at the start, and a start whose worst case is over `limits.memory` is refused.
//!
//! ```text
//! limits.memory
//!   connections × CONNECTION_BYTES    buffers, a command under way, TLS and compression
//!   limits.incoming_bytes             messages that come in
//!   limits.reading_bytes              large messages that are read for FETCH and SEARCH
//!   limits.summary_bytes              summaries in the making
//!   store.cache                       views of mailboxes that nobody has open
//!   sort keys                         what SORT and THREAD compare, of the mailboxes sorted last
//!   live results                      searches that are kept up to date
//!   search index                      words of the mailboxes searched last
//!   password hashes                   as many at once as there are threads for them
//!   BASE_BYTES                        the program, its threads, pages of the commit under way
//! ```
//!
//! Beside it are the views of mailboxes that are open, of some 29 bytes a message, which all
//! sessions of a mailbox share; and pages of files, which the system takes back when it wants to.

use bytesize::ByteSize;
use posthaste_delivery::summary_memory_max;
use posthaste_directory::hashes_at_once;

use super::machine::memory_there_is;
use crate::config::{Auto, Config};

/// What one connection may hold in the worst case: a command of 256 KiB with what it was parsed
/// into, 128 KiB of input behind it, 128 KiB of output, 128 KiB of a message, four TLS records each
/// way, 16 KiB of live results and the windows of DEFLATE. `tests/memory.rs` measures sessions in
/// that state.
pub const CONNECTION_BYTES: u64 = 1 << 20;
/// What the program takes with no connection: threads, tables, pages of the commit under way.
const BASE_BYTES: u64 = 64 << 20;
/// Bytes for sort keys: those of a mailbox of 100,000 messages take some 5 MB.
const KEYS_BYTES_MAX: u64 = 32 << 20;
/// Bytes for results that are kept up to date (RFC 5267). A sorted one of 100,000 messages takes
/// half a MB.
const CONTEXTS_BYTES_MAX: u64 = 32 << 20;
/// Bytes for the search index: about a third of the texts that it covers.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// Most connections that "auto" allows.
const CONNECTIONS_MAX: u64 = 16_000;
/// Fewer than this many serve nobody well: "auto" takes room for this many from all other parts.
const CONNECTIONS_LEAST: u64 = 64;

/// What each part may use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The bound on all of it.
    pub memory: u64,
    pub connections: u64,
    pub incoming: u64,
    pub reading: u64,
    pub summaries: u64,
    pub cache: u64,
    pub keys: u64,
    pub contexts: u64,
    pub index: u64,
    pub hashes: u64,
}

impl Plan {
    /// The plan of a configuration on this machine.
    pub fn of(config: &Config) -> Self {
        Self::within(config, memory_there_is(), hashes_at_once() as u64)
    }

    /// An error that names what is too large, if the parts are more than the whole.
    pub fn check(&self) -> Result<(), String> {
        if self.worst_case() > self.memory { Err(self.refusal()) } else { Ok(()) }
    }

    fn within(config: &Config, there_is: u64, hashes_at_once: u64) -> Self {
        let limits = &config.limits;
        // A quarter is left to the files' pages, to views that are open and to other programs.
        let memory = limits.memory.map(ByteSize::as_u64).unwrap_or(there_is / 4 * 3);
        let message = limits.message_size.as_u64();
        let summary = summary_memory_max(usize::try_from(message).unwrap_or(usize::MAX)) as u64;
        // A part of the whole: at least what the largest message takes, at most what gains nothing
        // more.
        let part = |set: Auto<ByteSize>, share: u64, least: u64, most: u64| {
            set.map(ByteSize::as_u64).unwrap_or((memory / share).min(most.max(least)).max(least))
        };
        let mut plan = Self {
            memory,
            connections: 0,
            incoming: part(limits.incoming_bytes, 8, message, 1 << 30),
            reading: part(limits.reading_bytes, 16, message, 256 << 20),
            summaries: part(limits.summary_bytes, 8, summary, 512 << 20),
            cache: part(config.store.cache, 8, 0, 256 << 20),
            keys: 0,
            contexts: 0,
            index: 0,
            hashes: hashes_at_once * config.login.argon2_memory.as_u64(),
        };
        let connections = limits.connections.map(|n| *n as u64);
        // Of what is left: a machine without room for them reads the keys again for each SORT.
        let least = connections.unwrap_or(CONNECTIONS_LEAST).saturating_mul(CONNECTION_BYTES);
        let left = memory.saturating_sub(plan.worst_case().saturating_add(least));
        plan.keys = (memory / 64).min(KEYS_BYTES_MAX).min(left);
        plan.contexts = (memory / 64).min(CONTEXTS_BYTES_MAX).min(left - plan.keys);
        plan.index = (memory / 32).min(INDEX_BYTES_MAX).min(left - plan.keys - plan.contexts);
        let room = memory.saturating_sub(plan.worst_case()) / CONNECTION_BYTES;
        plan.connections = connections.unwrap_or(room.clamp(CONNECTIONS_LEAST, CONNECTIONS_MAX));
        plan
    }

    /// The most that all parts together may use, in bytes.
    pub fn worst_case(&self) -> u64 {
        let Self { incoming, reading, summaries, cache, keys, contexts, index, hashes, .. } = *self;
        let parts = [incoming, reading, summaries, cache, keys, contexts, index, hashes, BASE_BYTES];
        parts.iter().fold(self.connections.saturating_mul(CONNECTION_BYTES), |sum, p| sum.saturating_add(*p))
    }

    fn refusal(&self) -> String {
        format!(
            "`limits.memory` is {}, but in the worst case the server would use {}: {}. Lower the largest of these \
             settings (`limits.message_size` lowers the least that three of them can be), or raise `limits.memory`",
            size(self.memory),
            size(self.worst_case()),
            self.parts()
        )
    }

    /// All parts, each by its setting.
    pub fn parts(&self) -> String {
        format!(
            "{} of `limits.connections` ({} of {}), {} of `limits.incoming_bytes`, {} of `limits.reading_bytes`, \
             {} of `limits.summary_bytes`, {} of `store.cache`, {} of sort keys, {} of live results, {} of the search index, {} of `login.argon2_memory`, {} of the program itself",
            size(self.connections * CONNECTION_BYTES),
            self.connections,
            size(CONNECTION_BYTES),
            size(self.incoming),
            size(self.reading),
            size(self.summaries),
            size(self.cache),
            size(self.keys),
            size(self.contexts),
            size(self.index),
            size(self.hashes),
            size(BASE_BYTES),
        )
    }
}

/// As the configuration writes it.
pub fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn plan(text: &str, there_is: u64) -> Result<Plan, String> {
        let config = Config::parse(std::path::Path::new("posthaste.toml"), text).unwrap();
        let plan = Plan::within(&config, there_is, 1);
        plan.check().map(|()| plan)
    }

    #[test]
    fn a_large_machine_has_the_most_that_gains_anything() {
        let plan = plan("", 64 * GIB).unwrap();
        assert_eq!((plan.memory, plan.connections, plan.incoming), (48 * GIB, 16_000, GIB));
        assert_eq!((plan.reading, plan.summaries, plan.cache), (256 << 20, 512 << 20, 256 << 20));
    }

    #[test]
    fn the_defaults_fit_every_machine_of_a_gibibyte() {
        for there_is in [GIB, 2 * GIB, 3 * GIB, 5 * GIB, 8 * GIB] {
            let plan = plan("", there_is).unwrap();
            assert!(plan.worst_case() <= there_is / 4 * 3, "{there_is}: {}", plan.parts());
            assert!(plan.connections >= CONNECTIONS_LEAST);
        }
    }

    #[test]
    fn a_small_machine_is_told_what_to_lower() {
        let refusal = plan("", GIB / 4).unwrap_err();
        assert!(refusal.contains("`limits.message_size`") && refusal.contains("192.0 MiB"), "{refusal}");
        let small =
            "[limits]\nmessage_size = \"10 MiB\"\nmemory = \"320 MiB\"\n[login]\nargon2_memory = \"7 MiB\"";
        let plan = plan(small, GIB / 4).unwrap();
        assert!(plan.worst_case() <= 320 << 20 && plan.connections >= CONNECTIONS_LEAST, "{}", plan.parts());
    }

    #[test]
    fn what_is_set_is_taken_and_refused_if_it_is_too_much() {
        let set = "[limits]\nconnections = 100\nincoming_bytes = \"2 GiB\"\nmemory = \"4 GiB\"";
        let plan_set = plan(set, GIB).unwrap();
        assert_eq!((plan_set.connections, plan_set.incoming, plan_set.memory), (100, 2 * GIB, 4 * GIB));
        let refusal = plan(&set.replace("connections = 100", "connections = 4000"), GIB).unwrap_err();
        assert!(refusal.contains("3.9 GiB of `limits.connections` (4000 of 1.0 MiB)"), "{refusal}");
        assert!(refusal.starts_with("`limits.memory` is 4.0 GiB"), "{refusal}");
    }
}
