//! Accounts for every message: lists the messages before a run, and checks the expected ones after
//! it.
//!
//! The audit uses separate sessions, and does not rely on answers to the run's sessions.

use std::collections::HashMap;
use std::time::Duration;

use posthaste_imap_client::command::quoted;
use posthaste_imap_client::fetch::{Summary, Value};
use posthaste_imap_client::net::Dialer;
use posthaste_imap_client::{Client, Handler, Response, Status, listing};
use posthaste_load_results::AuditResult;
use posthaste_load_workload::corpus::{Serial, Verdict, Verifier, serial_in_header, serial_token};

use crate::accounts::Accounts;
use crate::mailbox_list::MailboxList;
use crate::run::{CountBounds, Failure, Ledger};
use crate::target::Target;

/// Accounts examined at the same time.
const PARALLEL: usize = 16;
/// Findings reported as text.
const FINDINGS_MAX: usize = 50;
/// Looks at an account where something is missing, and the wait between them: mail accepted over
/// SMTP may be queued.
const LOOKS_MAX: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The server and the accounts to audit.
#[derive(Clone)]
pub struct AuditOptions {
    /// The IMAP server.
    pub imap: Target,
    /// Other servers of the same accounts, used when it is unreachable.
    pub others: Vec<Target>,
    /// The accounts.
    pub accounts: Accounts,
    /// The settings of connections.
    pub dialer: Dialer,
    /// Whether every body is fetched and verified, or only the serials in the headers.
    pub bodies: bool,
}

/// The contents of an account.
#[derive(Default)]
struct AccountContents {
    messages: u64,
    serials: HashMap<Serial, u32>,
    altered: Vec<String>,
    /// Mailbox, UIDVALIDITY, UID, and the message that has this UID.
    uids: Vec<(String, u32, u32, Serial)>,
}

/// Enters every message of every account into a new ledger.
pub fn baseline(options: &AuditOptions) -> Result<Ledger, Failure> {
    let ledger = Ledger::new(options.accounts.count());
    for (account, found) in enumerate_all(options, 0..options.accounts.count())? {
        let found = found?;
        for (mailbox, validity, uid, serial) in &found.uids {
            ledger.identified(account, (mailbox, *validity), *uid, *serial);
        }
        for (serial, count) in found.serials {
            (0..count).for_each(|_| ledger.found(account, serial));
        }
    }
    Ok(ledger)
}

/// Compares every account with the ledger.
pub fn audit(options: &AuditOptions, ledger: &Ledger) -> Result<AuditResult, Failure> {
    let mut result = AuditResult::default();
    let mut accounts: Vec<u32> = (0..options.accounts.count()).collect();
    for look in 1..=LOOKS_MAX {
        let mut again = Vec::new();
        for (account, found) in enumerate_all(options, std::mem::take(&mut accounts))? {
            let found = match found {
                Ok(found) => found,
                Err(failure) => {
                    result.accounts += 1;
                    result.unreadable += 1;
                    report(&mut result, format!("{}: {failure}", options.accounts.name(account)));
                    continue;
                }
            };
            let book = ledger.account(account);
            let missing = book.iter().any(|(serial, span)| (count(&found, *serial)) < span.least);
            if missing && look < LOOKS_MAX {
                again.push(account);
            } else {
                let name = options.accounts.name(account);
                compare(&name, &found, &book, &mut result);
                for (mailbox, validity, uid, serial) in &found.uids {
                    if let Some(other) = ledger.identified(account, (mailbox, *validity), *uid, *serial) {
                        result.reused += 1;
                        let (now, before) = (serial_token(*serial), serial_token(other));
                        report(
                            &mut result,
                            format!("{name}: UID {uid} of {mailbox} names {now}, it named {before} before"),
                        );
                    }
                }
            }
        }
        if again.is_empty() {
            break;
        }
        accounts = again;
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(result)
}

fn count(found: &AccountContents, serial: Serial) -> i32 {
    found.serials.get(&serial).map_or(0, |n| *n as i32)
}

fn report(result: &mut AuditResult, what: String) {
    if result.findings.len() < FINDINGS_MAX {
        result.findings.push(what);
    }
}

fn compare(
    name: &str,
    found: &AccountContents,
    book: &HashMap<Serial, CountBounds>,
    result: &mut AuditResult,
) {
    result.accounts += 1;
    result.messages_found += found.messages;
    for (serial, span) in book {
        let there = count(found, *serial);
        let token = serial_token(*serial);
        result.messages_expected += span.least.max(0) as u64;
        if there < span.least {
            result.missing += (span.least - there) as u64;
            report(
                result,
                format!(
                    "{name}: {token} was acknowledged and is there {there} times instead of {}",
                    span.least
                ),
            );
        } else if there > span.most && span.most <= 0 {
            result.unexpected += there as u64;
            report(result, format!("{name}: {token} was removed and is still there"));
        } else if there > span.most {
            result.duplicated += (there - span.most) as u64;
            report(result, format!("{name}: {token} is there {there} times instead of {}", span.most));
        }
    }
    for serial in found.serials.keys().filter(|s| !book.contains_key(s)) {
        result.unexpected += 1;
        report(result, format!("{name}: {} is there and was never added", serial_token(*serial)));
    }
    for what in &found.altered {
        result.altered += 1;
        report(result, format!("{name}: {what}"));
    }
}

type ByAccount = Vec<(u32, Result<AccountContents, Failure>)>;

fn enumerate_all(
    options: &AuditOptions,
    accounts: impl IntoIterator<Item = u32>,
) -> Result<ByAccount, Failure> {
    let fail = |e: std::io::Error| Failure::Connection(e.into());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(fail)?;
    Ok(runtime.block_on(async {
        let mut outcomes = Vec::new();
        let mut tasks = tokio::task::JoinSet::new();
        for account in accounts {
            if tasks.len() >= PARALLEL
                && let Some(Ok(done)) = tasks.join_next().await
            {
                outcomes.push(done);
            }
            let options = options.clone();
            tasks.spawn(async move { (account, enumerate(&options, account).await) });
        }
        while let Some(done) = tasks.join_next().await {
            outcomes.extend(done);
        }
        outcomes
    }))
}

async fn enumerate(options: &AuditOptions, account: u32) -> Result<AccountContents, Failure> {
    let mut client = Client::connect(&options.dialer, &options.imap.endpoint, account).await;
    for other in &options.others {
        if client.is_ok() {
            break;
        }
        client = Client::connect(&options.dialer, &other.endpoint, account).await;
    }
    let mut client = client?;
    client.login(&options.accounts.name(account), &options.accounts.password(account)).await?;
    let mut names = Names::default();
    client.command("LIST \"\" \"*\"", &mut names).await?;
    let listed = names.0.all().map_err(Failure::Wrong)?;
    let mut found = AccountContents::default();
    for name in listed.into_iter().filter(|l| l.selectable).map(|l| l.name) {
        let mut lister = Lister { found: &mut found, mailbox: &name, exists: 0, validity: 0, verifier: None };
        let line = format!("EXAMINE {}", quoted(&name));
        let done = client.command(&line, &mut lister).await?;
        if !done.is_ok() {
            return Err(Failure::Refused { command: line, text: done.text });
        }
        if lister.exists > 0 {
            let items =
                if options.bodies { "BODY.PEEK[]" } else { "BODY.PEEK[HEADER.FIELDS (X-POSTHASTE-SERIAL)]" };
            let line = format!("FETCH 1:* (UID {items})");
            let done = client.command(&line, &mut lister).await?;
            if !done.is_ok() {
                return Err(Failure::Refused { command: line, text: done.text });
            }
        }
    }
    client.logout().await?;
    Ok(found)
}

#[derive(Default)]
struct Names(MailboxList);

impl Handler for Names {
    fn response(&mut self, response: Response<'_>) {
        if let Response::List(text) = response {
            self.0.add(text);
        }
    }
}

struct Lister<'a> {
    found: &'a mut AccountContents,
    mailbox: &'a str,
    exists: u32,
    validity: u32,
    verifier: Option<Verifier>,
}

impl Handler for Lister<'_> {
    fn response(&mut self, response: Response<'_>) {
        match response {
            Response::Exists(n) => self.exists = n,
            Response::Condition(Status::Ok, text) => {
                let text = String::from_utf8_lossy(text);
                let validity = listing::code(&text).and_then(|c| c.strip_prefix("UIDVALIDITY "));
                self.validity = validity.and_then(|n| n.parse().ok()).unwrap_or(self.validity);
            }
            Response::Fetch(_, items) => {
                let summary = Summary::of(items);
                let Some((name, value)) = summary.body else { return };
                self.found.messages += 1;
                let serial = match (name, value) {
                    (b"BODY[]", value) => self.whole(value),
                    (_, Value::String(header)) => serial_in_header(header),
                    _ => None,
                };
                if let Some(serial) = serial {
                    *self.found.serials.entry(serial).or_default() += 1;
                    let uid = summary.uid.unwrap_or(0);
                    self.found.uids.push((self.mailbox.to_owned(), self.validity, uid, serial));
                }
            }
            _ => {}
        }
    }

    fn literal_starts(&mut self, _: &[u8], _: u64) {
        self.verifier = Some(Verifier::default());
    }

    fn literal(&mut self, chunk: &[u8]) {
        if let Some(verifier) = &mut self.verifier {
            verifier.feed(chunk);
        }
    }
}

impl Lister<'_> {
    fn whole(&mut self, value: Value<'_>) -> Option<Serial> {
        let verdict = match value {
            Value::String(bytes) => {
                let mut verifier = Verifier::default();
                verifier.feed(bytes);
                verifier.verdict()
            }
            _ => self.verifier.take().map_or(Verdict::Foreign, Verifier::verdict),
        };
        match verdict {
            Verdict::Good(serial) => Some(serial),
            Verdict::Foreign => None,
            Verdict::Altered(serial, how) => {
                let token = serial.map(serial_token).unwrap_or_default();
                self.found.altered.push(format!("{} in {}: {how}", token, self.mailbox));
                serial
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_finding() {
        let book = HashMap::from([
            (1, CountBounds { least: 1, most: 1 }),
            (2, CountBounds { least: 1, most: 1 }),
            (3, CountBounds { least: 0, most: 0 }),
            (4, CountBounds { least: 0, most: 1 }),
        ]);
        let found = AccountContents {
            messages: 4,
            serials: HashMap::from([(2, 2), (3, 1), (9, 1)]),
            ..AccountContents::default()
        };
        let mut result = AuditResult::default();
        compare("ana", &found, &book, &mut result);
        assert_eq!((result.missing, result.duplicated, result.unexpected), (1, 1, 2));
        assert!(!result.is_clean() && result.findings.len() == 4);
        let mut clean = AuditResult::default();
        compare(
            "ana",
            &AccountContents { serials: HashMap::from([(1, 1), (2, 1)]), ..AccountContents::default() },
            &book,
            &mut clean,
        );
        assert!(clean.is_clean(), "{clean:?}");
    }
}
