//! `posthaste sieve`: scripts are compiled and tried, on files alone.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_mime_summary::{HeaderFields, Span, address_list};
use posthaste_sieve::{Capabilities, Context, Location, Moment, Script};

use super::serve::machine_name;
use crate::cli;
use crate::failure::{Failure, Result};

pub fn run(command: &cli::Sieve) -> Result<()> {
    match command {
        cli::Sieve::Check { script } => {
            compile(script)?;
            println!("{} is right", script.display());
            Ok(())
        }
        cli::Sieve::Test(options) => test(options),
        // These work on a store.
        _ => Ok(()),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

/// A script's text.
pub(super) fn source(file: &Path) -> Result<String> {
    String::from_utf8(read(file)?)
        .map_err(|_| Failure::Usage(format!("{}: a script must be UTF-8", file.display())))
}

fn compile(file: &Path) -> Result<Script> {
    let source = source(file)?;
    Script::compile(&source, &Capabilities::default()).map_err(|errors| {
        let lines: Vec<String> = errors.0.iter().map(|e| format!("{}: {e}", file.display())).collect();
        Failure::Incomplete(lines.join("\n"))
    })
}

fn test(options: &cli::SieveTest) -> Result<()> {
    let script = compile(&options.script)?;
    let message = read(&options.message)?;
    let field = |name: &str| first_address(&message, name);
    let from = match options.from.as_deref() {
        Some("<>") => String::new(),
        Some(address) => address.to_owned(),
        None => field("return-path").or_else(|| field("from")).unwrap_or_default(),
    };
    let to = options.to.clone().or_else(|| field("to")).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let trial = Trial {
        own: vec![to.clone()],
        from,
        to,
        now: Moment { unix_s: i64::try_from(now).unwrap_or(i64::MAX), zone_minutes: 0 },
        mailboxes: &options.mailbox,
        directory: options.script.parent().unwrap_or(Path::new("")),
        host: machine_name(),
        environment: &options.environment,
    };
    println!("envelope from <{}> to <{}>", trial.from, trial.to);
    let outcome = script.run(&message, &trial);
    print!("{outcome}");
    println!("{} steps", outcome.steps);
    match outcome.error {
        Some(_) => Err(Failure::Incomplete("the script failed for this message".into())),
        None => Ok(()),
    }
}

/// The first address in a header field.
fn first_address(message: &[u8], name: &str) -> Option<String> {
    let end = u32::try_from(message.len()).ok()?;
    let field = HeaderFields::new(message, Span::new(0, end)).find(|field| field.is(message, name))?;
    let value = field.value(message);
    let address = address_list(&value).into_iter().find(|a| a.mailbox.is_some() && a.host.is_some())?;
    let part = |part: &Option<Cow<'_, [u8]>>| {
        part.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned()
    };
    Some(format!("{}@{}", part(&address.mailbox), part(&address.host)))
}

/// The world as the command line has it.
struct Trial<'o> {
    from: String,
    to: String,
    own: Vec<String>,
    now: Moment,
    mailboxes: &'o [String],
    directory: &'o Path,
    host: String,
    /// Values of the command line, which go before those of a delivery.
    environment: &'o [(String, String)],
}

impl Context for Trial<'_> {
    fn envelope_from(&self) -> &str {
        &self.from
    }

    fn envelope_to(&self) -> &str {
        &self.to
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn own_addresses(&self) -> &[String] {
        &self.own
    }

    fn mailbox_exists(&self, mailbox: &str) -> bool {
        mailbox.eq_ignore_ascii_case("INBOX") || self.mailboxes.iter().any(|name| name == mailbox)
    }

    /// RFC 5183 §4.1; of an item that is given twice, the last value.
    fn environment(&self, item: &str) -> Option<Cow<'_, str>> {
        if let Some((_, value)) = self.environment.iter().rev().find(|(name, _)| name == item) {
            return Some(Cow::Borrowed(value));
        }
        posthaste_filter::delivery_item(&self.host, item).map(Cow::Borrowed)
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, String> {
        // A name that leaves the directory names no script of it.
        if name.contains(['/', '\0']) || name.starts_with('.') {
            return Ok(None);
        }
        let directory = match location {
            Location::Personal => self.directory.to_owned(),
            Location::Global => self.directory.join("global"),
        };
        let file = directory.join(format!("{name}.sieve"));
        if !file.exists() {
            return Ok(None);
        }
        compile(&file).map(|script| Some(Arc::new(script))).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_fields() {
        let message = b"Return-Path: <a@x>\r\nTo: Bo <b@x>, c@x\r\nFrom: d@x\r\n\r\nReply-To: e@x\r\n";
        let found = |name: &str| first_address(message, name);
        assert_eq!(found("return-path").as_deref(), Some("a@x"));
        assert_eq!(found("from").as_deref(), Some("d@x"));
        assert_eq!((found("reply-to"), found("cc")), (None, None));
    }
}
