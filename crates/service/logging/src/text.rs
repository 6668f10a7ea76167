//! Events as text: a line with its time, level, target and fields.
//!
//! The library's layer passes each space and each equals sign through its formatter. So the line
//! of a login took a fifteenth of a session's instructions. Here a thread writes the parts of an
//! ordinary event into one buffer, which it keeps. All other events are written by the library's
//! layer. The lines are the same.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::{self, Debug, Write as _};
use std::io::Write as _;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::{Layer as LibraryLayer, MakeWriter, format};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::lines::is_plain;
use crate::stamp::Stamp;

/// The name of an event that was a record of the crate `log`. Its target is in a field.
const LOG_RECORD: &str = "log event";
/// The field with the text of an event. Its name is not shown.
const MESSAGE: &str = "message";

/// A layer that writes each event as a line.
pub(crate) struct Text<S, M> {
    /// Its writer is the one of all lines.
    pub(crate) library: LibraryLayer<S, format::DefaultFields, format::Format, M>,
    /// Whether lines have colours. The library writes these: people read a terminal slowly.
    pub(crate) colours: bool,
}

impl<S, M> Layer<S> for Text<S, M>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    M: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.library.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.library.on_record(id, values, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let in_span = context.event_scope(event).is_some();
        if self.colours || in_span || !write_ordinary(event, self.library.writer()) {
            self.library.on_event(event, context);
        }
    }
}

thread_local! {
    static LINE: RefCell<Line> = const { RefCell::new(Line::new()) };
}

/// Writes an ordinary event. Returns whether it was one.
fn write_ordinary<M: for<'a> MakeWriter<'a>>(event: &Event<'_>, writer: &M) -> bool {
    let written = LINE.try_with(|line| {
        // A value that is printed may log: that event comes while this one is in the buffer.
        let Ok(mut line) = line.try_borrow_mut() else { return false };
        let Ok(octets) = line.print(event) else { return false };
        // There is no other place to report that the log cannot be written.
        let _ = writer.make_writer_for(event.metadata()).write_all(octets);
        true
    });
    written.unwrap_or(false)
}

/// The last line of a thread, and the room for the next one.
struct Line {
    octets: Vec<u8>,
    stamp: Stamp,
}

impl Line {
    const fn new() -> Self {
        Self { octets: Vec::new(), stamp: Stamp::new() }
    }

    /// The line of an ordinary event. The error says that the event is not ordinary.
    fn print(&mut self, event: &Event<'_>) -> Result<&[u8], fmt::Error> {
        let metadata = event.metadata();
        if metadata.name() == LOG_RECORD {
            return Err(fmt::Error);
        }
        self.octets.clear();
        self.octets.extend_from_slice(self.stamp.of(SystemTime::now()).ok_or(fmt::Error)?);
        for part in [level(metadata.level()), metadata.target(), ": "] {
            self.octets.extend_from_slice(part.as_bytes());
        }
        let mut fields = Fields { octets: &mut self.octets, is_first: true, printed: Ok(()) };
        event.record(&mut fields);
        fields.printed?;
        self.octets.push(b'\n');
        Ok(&self.octets)
    }
}

/// A level with the space after it: all have the same width.
fn level(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "ERROR ",
        Level::WARN => " WARN ",
        Level::INFO => " INFO ",
        Level::DEBUG => "DEBUG ",
        Level::TRACE => "TRACE ",
    }
}

/// Prints the fields of an event: the text as it is, and each other one as `name=value`.
struct Fields<'l> {
    octets: &'l mut Vec<u8>,
    is_first: bool,
    /// An error if the event is not ordinary, or a value cannot be printed.
    printed: fmt::Result,
}

impl Fields<'_> {
    fn print(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if !self.is_first {
            self.octets.push(b' ');
        }
        self.is_first = false;
        if name == MESSAGE {
            let from = self.octets.len();
            write!(self, "{value:?}")?;
            // The library escapes some characters of a message, as it does in no other field.
            return if is_plain(&self.octets[from..]) { Ok(()) } else { Err(fmt::Error) };
        }
        self.write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.octets.push(b'=');
        write!(self, "{value:?}")
    }
}

impl fmt::Write for Fields<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.octets.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    /// The library prints the causes of an error, too.
    fn record_error(&mut self, _: &Field, _: &(dyn Error + 'static)) {
        self.printed = Err(fmt::Error);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        // The library leaves these out: they are about a record of the crate `log`.
        if self.printed.is_ok() && !name.starts_with("log.") {
            self.printed = self.print(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{debug, error, info, info_span, trace, warn};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::{Registry, fmt as library, registry};

    use super::*;
    use crate::lines::Lines;

    /// What a stranger may send, with a line that looks like an event of its own.
    const HOSTILE: &str = "ana\"\\\r\n2026-11-30T19:52:48.095336Z  INFO posthaste::login: login failed \
         address=192.0.2.9\u{1b}[2J\u{7}\u{8}\u{c}\u{7f}\u{85}\u{9b}\u{202e}\u{301}é\u{0}\t'";

    /// A text as a type of its own has it: printed as it is.
    struct Raw(&'static str);

    impl fmt::Display for Raw {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    /// A value that cannot be printed.
    struct Unprintable;

    impl Debug for Unprintable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    fn ordinary_events() {
        let number = 42_u64;
        let (address, protocol, session) = ("192.0.2.1", "imap", format_args!("{number:x}"));
        let (by, account) = ("password", "ana@example.org");
        info!(target: "posthaste::login", %address, %protocol, %session, %by, ?account, "logged in");
        info!(target: "posthaste::login", %address, %protocol, %session, account = ?HOSTILE, "login failed");
        info!(id = "1.2", account = HOSTILE, octets = 4322_u64, delta = -1_i32, "delivered");
        warn!(raw = %Raw(HOSTILE), none = Option::<u64>::None, some = Some(1), ratio = 0.5, is = true);
        error!(r#type = ?[1, 2], octets = &b"\x00\xffa"[..], big = u128::MAX, "a {} message", "formatted");
        debug!("only {}", 1 + 1);
        trace!(message = "a text as a value", last = "");
        info!(log.line = 7, text = "not in the line: log.line");
        info!("");
    }

    fn other_events() {
        info!("{}", HOSTILE);
        info!(message = HOSTILE, account = "ana");
        warn!("a message with an é");
        let failed = io::Error::other(HOSTILE);
        let error: &(dyn Error + 'static) = &failed;
        error!(error, "failed");
        tracing::event!(
            name: "log event", target: "log", tracing::Level::INFO, log.target = "rustls", "of the crate `log`"
        );
        info!(value = ?Unprintable, "not printed");
    }

    fn events_in_spans() {
        let outer = info_span!("outer", account = HOSTILE, octets = tracing::field::Empty);
        let _entered = outer.enter();
        info!(account = "ana", "in a span");
        outer.record("octets", 7);
        info!(account = "ana", "in a span that has more fields");
        let inner = info_span!("inner");
        inner.in_scope(|| info!("in two spans"));
        info!(parent: Option::<Id>::None, "in no span");
        warn!(parent: &inner, "in a span by its name");
    }

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        /// The lines, with zeros as the digits of their times, which colours may come before.
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let without_time = |line: &str| {
                let zero = |(at, c): (usize, char)| if at < 31 && c.is_ascii_digit() { '0' } else { c };
                line.char_indices().map(zero).collect::<String>()
            };
            text.split_inclusive('\n').map(without_time).collect()
        }
    }

    /// The lines of events, from this layer and from the library's.
    fn both(events: fn(), colours: bool) -> [Vec<String>; 2] {
        let (ours, theirs) = (Log::default(), Log::default());
        let lines = |log: &Log| {
            let log = log.clone();
            move || Lines { to: log.clone(), colours }
        };
        let text = Text { library: library::layer().with_ansi(colours).with_writer(lines(&ours)), colours };
        tracing::subscriber::with_default(registry().with(text), events);
        let layer = library::layer().with_ansi(colours).with_writer(lines(&theirs));
        tracing::subscriber::with_default(registry().with(layer), events);
        [ours.lines(), theirs.lines()]
    }

    #[test]
    fn lines_are_those_of_the_library() {
        let cases: [(fn(), usize); 3] = [(ordinary_events, 9), (other_events, 5), (events_in_spans, 5)];
        for (events, count) in cases {
            for colours in [false, true] {
                let [ours, theirs] = both(events, colours);
                assert_eq!(ours, theirs, "colours: {colours}");
                assert_eq!(ours.len(), count, "an event is one line: {ours:#?}");
                let is_shown = |c: char| !c.is_control() || (colours && c == '\u{1b}');
                assert!(
                    ours.iter().all(|line| line.trim_end_matches('\n').chars().all(is_shown)),
                    "{ours:#?}"
                );
            }
        }
    }

    #[test]
    fn a_login_has_the_documented_line() {
        let [ours, _] = both(ordinary_events, false);
        assert_eq!(
            ours[0],
            "0000-00-00T00:00:00.000000Z  INFO posthaste::login: logged in address=192.0.2.1 protocol=imap \
             session=2a by=password account=\"ana@example.org\"\n"
        );
    }

    /// Notes which events are ordinary.
    #[derive(Clone, Default)]
    struct Ordinary(Arc<Mutex<Vec<bool>>>);

    impl Layer<Registry> for Ordinary {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, Registry>) {
            self.0.lock().unwrap().push(Line::new().print(event).is_ok());
        }
    }

    #[test]
    fn ordinary_events_are_not_left_to_the_library() {
        let cases: [(fn(), Vec<bool>); 2] =
            [(ordinary_events, vec![true; 9]), (other_events, vec![false; 6])];
        for (events, are_ordinary) in cases {
            let noted = Ordinary::default();
            tracing::subscriber::with_default(registry().with(noted.clone()), events);
            assert_eq!(*noted.0.lock().unwrap(), are_ordinary);
        }
    }
}
