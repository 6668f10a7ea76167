//! Logs: one subscriber, on standard error, as text for people or JSON for machines. The level can
//! be changed later.
//!
//! The parts of the subscriber are type parameters, so its code is generated in the crate that puts
//! them together. That is this crate, because the program's own crate is compiled without
//! optimisation, and each login writes an event.

mod batches;
mod lines;
mod stamp;
mod text;

use std::io::{self, IsTerminal as _, Stderr};
use std::sync::LazyLock;

use tracing::Metadata;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::batches::{Batches, Entry, When};
use crate::lines::Lines;
use crate::text::Text;

pub use crate::lines::escaped;

/// The names of events that come with each session or message. A server may have thousands in a
/// second, so they are written in batches. The crates that log them name them so: a test in
/// `crates/dev/house` compares the names.
const FREQUENT: [&str; 3] = ["login", "client", "message"];

/// Standard error, to which all events go.
static LOG: LazyLock<Batches<Stderr>> = LazyLock::new(|| Batches::new(io::stderr()));

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Text,
    /// An object of JSON for each event.
    Json,
}

/// Why a level is not used.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// It is not one.
    #[error("`log.level` = {level:?}: {reason}; write error, warn, info, debug or trace")]
    Unreadable {
        /// What was given.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The subscriber does not take it.
    #[error("the log level cannot be changed: {0}")]
    Unchanged(String),
}

/// Changes the level of a running program.
pub struct Level(reload::Handle<Targets, Registry>);

impl Level {
    /// Changes the level from now on.
    pub fn set(&self, level: &str) -> Result<(), LevelError> {
        self.0.reload(filter(level)?).map_err(|e| LevelError::Unchanged(e.to_string()))
    }
}

/// Starts logging. Called once. Each event is written at once, until [`write_in_batches`].
pub fn start(level: &str, format: Format) -> Result<Level, LevelError> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => {
            // Colours are for a terminal; a log file is read by other programs.
            let colours = io::stderr().is_terminal();
            let library = fmt::layer().with_ansi(colours).with_writer(TextLog(Log { is_terminal: colours }));
            registry.with(Text { library, colours }).init();
        }
        Format::Json => {
            let json = fmt::layer().json().flatten_event(true);
            registry.with(json.with_writer(Log { is_terminal: io::stderr().is_terminal() })).init();
        }
    }
    Ok(Level(handle))
}

/// Leaves the frequent events to a thread, which it starts: see [`batches`]. Call [`flush`] before
/// the program ends.
pub fn write_in_batches() -> io::Result<()> {
    LOG.start()
}

/// Writes the events that wait.
pub fn flush() {
    LOG.write();
}

/// Makes the writer of each event.
struct Log {
    /// People watch: each line is written at once, and in colours.
    is_terminal: bool,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Entry<'a, Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Entry { batches: &LOG, when: When::Now }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let may_wait = !self.is_terminal && FREQUENT.contains(&metadata.name());
        Entry { batches: &LOG, when: if may_wait { When::Soon } else { When::Now } }
    }
}

/// The same for text, of which each event must be one line.
struct TextLog(Log);

impl<'a> MakeWriter<'a> for TextLog {
    type Writer = Lines<Entry<'a, Stderr>>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines { to: self.0.make_writer(), colours: self.0.is_terminal }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        Lines { to: self.0.make_writer_for(metadata), colours: self.0.is_terminal }
    }
}

fn filter(level: &str) -> Result<Targets, LevelError> {
    let given = level.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    // rustls logs a warning for each failed handshake of a client. It is shown only where
    // `log.level` names rustls.
    let rustls = (!level.contains("rustls")).then_some("rustls=error");
    let directives: Vec<&str> = given.chain(rustls).collect();
    directives
        .join(",")
        .parse::<Targets>()
        .map_err(|e| LevelError::Unreadable { level: level.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustls_is_quiet_unless_asked_for() {
        let directives = |level: &str| filter(level).map(|f| f.to_string());
        assert_eq!(directives("info").unwrap(), "rustls=error,info");
        assert_eq!(directives("info,rustls=trace").unwrap(), "rustls=trace,info");
        assert_eq!(directives("info, ").unwrap(), directives("info").unwrap());
        assert!(directives("loud=very").unwrap_err().to_string().contains("`log.level` = \"loud=very\""));
    }
}
