//! `posthaste sieve`: scripts are compiled and tried, on files alone.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use posthaste_directory::unix_time;
use posthaste_filter::{SiteFolders, SiteScripts, zone_minutes};
use posthaste_mime_summary::{HeaderFields, Span, address_list};
use posthaste_sieve::{Context, Location, Moment, Outcome, Script, duplicate_value};

use super::serve::machine_name;
use crate::cli;
use crate::failure::{Failure, Result};
use crate::logging::for_terminal;

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

/// As the server does, with its limits.
fn compile(file: &Path) -> Result<Script> {
    let source = source(file)?;
    posthaste_filter::compile(&source).map_err(|errors| {
        let lines: Vec<String> = errors.0.iter().map(|e| format!("{}: {e}", file.display())).collect();
        Failure::Incomplete(lines.join("\n"))
    })
}

fn test(options: &cli::SieveTest) -> Result<()> {
    let own = Arc::new(compile(&options.script)?);
    let folders = SiteFolders {
        before: options.before.clone(),
        after: options.after.clone(),
        global: options.global.clone(),
    };
    let site = SiteScripts::read(&folders).map_err(|error| Failure::Usage(error.to_string()))?;
    let script = if site.around(None).next().is_some() { site.whole(Some(&own)) } else { Arc::clone(&own) };
    let message = read(&options.message)?;
    let field = |name: &str| first_address(&message, name);
    let from = match options.from.as_deref() {
        Some("<>") => String::new(),
        Some(address) => address.to_owned(),
        None => field("return-path").or_else(|| field("from")).unwrap_or_default(),
    };
    let to = options.to.clone().or_else(|| field("to")).unwrap_or_default();
    let unix_s = unix_time::now_signed();
    let trial = TestContext {
        own: vec![to.clone()],
        from,
        to,
        now: Moment { unix_s, zone_minutes: zone_minutes(unix_s) },
        own_script: own,
        site,
        options,
        directory: options.script.parent().unwrap_or(Path::new("")),
        host: machine_name(),
    };
    let outcome = script.run(&message, &trial);
    print!("{}", report(&trial.from, &trial.to, &outcome));
    match outcome.error {
        Some(_) => Err(Failure::Incomplete("the script failed for this message".into())),
        None => Ok(()),
    }
}

/// What a trial did. Users and senders wrote the script and the message, so a terminal gets none of
/// their control characters.
fn report(from: &str, to: &str, outcome: &Outcome) -> String {
    for_terminal(&format!("envelope from <{from}> to <{to}>\n{outcome}{} steps\n", outcome.steps))
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
struct TestContext<'o> {
    from: String,
    to: String,
    own: Vec<String>,
    now: Moment,
    own_script: Arc<Script>,
    /// The scripts of the administrator.
    site: SiteScripts,
    /// The mailboxes and the seen messages that the command line gives.
    options: &'o cli::SieveTest,
    directory: &'o Path,
    host: String,
}

impl Context for TestContext<'_> {
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
        let named = self.options.special_use.iter().map(|(name, _)| name);
        let mut all = self.options.mailbox.iter().chain(named);
        mailbox.eq_ignore_ascii_case("INBOX") || all.any(|name| name == mailbox)
    }

    fn mailbox_id_exists(&self, id: &str) -> bool {
        self.options.mailbox_id.iter().any(|one| one == id)
    }

    fn special_use_exists(&self, mailbox: Option<&str>, flag: &str) -> bool {
        let is_meant = |name: &str| mailbox.is_none_or(|mailbox| mailbox == name);
        self.options.special_use.iter().any(|(name, one)| is_meant(name) && one.eq_ignore_ascii_case(flag))
    }

    fn is_duplicate(&self, key: &str) -> bool {
        self.options.seen.iter().any(|value| duplicate_value(key) == Some(value))
    }

    /// RFC 5183 §4.1; those of the command line go before those of a delivery, the last one first.
    fn environment(&self, item: &str) -> Option<Cow<'_, str>> {
        if let Some((_, value)) = self.options.environment.iter().rev().find(|(name, _)| name == item) {
            return Some(Cow::Borrowed(value));
        }
        posthaste_filter::delivery_item(&self.host, item).map(Cow::Borrowed)
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, String> {
        if let Some(script) = self.site.included(location, name, &self.own_script) {
            return Ok(Some(script));
        }
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
    fn a_trial_controls_no_terminal() {
        let outcome = Outcome { notes: vec!["\u{1b}[2J".to_owned()], steps: 7, ..Outcome::default() };
        let shown = report("a\u{9b}1A@x", "b@x", &outcome);
        assert_eq!(shown, "envelope from <a\\u{9b}1A@x> to <b@x>\nnote: \\u{1b}[2J\n7 steps\n");
    }

    #[test]
    fn addresses_of_fields() {
        let message = b"Return-Path: <a@x>\r\nTo: Bo <b@x>, c@x\r\nFrom: d@x\r\n\r\nReply-To: e@x\r\n";
        let found = |name: &str| first_address(message, name);
        assert_eq!(found("return-path").as_deref(), Some("a@x"));
        assert_eq!(found("from").as_deref(), Some("d@x"));
        assert_eq!((found("reply-to"), found("cc")), (None, None));
    }
}
