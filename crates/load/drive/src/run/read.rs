//! IMAP steps that read: SELECT, FETCH, SEARCH, STATUS, IDLE.

use std::time::{Duration, Instant};

use posthaste_imap_client::command::quoted;
use posthaste_load_workload::corpus::serial_token;
use posthaste_load_workload::{Criterion, Mailbox, Messages, Track};
use posthaste_mail_model::NumSet;

use super::failure::Failure;
use super::follow::{Sum, Wanted, enough_of, enough_to_sum};
use super::model::{DELETED, Message, SEEN};
use super::session::Expected;
use super::user::User;

/// More messages than any mailbox has.
pub const ANY_COUNT: u32 = u32::MAX;

impl User {
    /// The index of the mailbox that a step names. A random one has fewer than `max` messages.
    pub fn pick_mailbox(&mut self, which: &Mailbox, max: u32) -> Option<usize> {
        match which {
            Mailbox::Current => self.model.current.or_else(|| Some(self.model.inbox())),
            Mailbox::Inbox => Some(self.model.inbox()),
            Mailbox::Random => self.model.random(&mut self.random, None, max),
            Mailbox::Other => self.model.random(&mut self.random, self.model.current, max),
            Mailbox::Fresh => self.model.fresh(),
            Mailbox::Named(name) => Some(self.model.named(name)),
        }
    }

    /// SELECT or EXAMINE; the number of messages is compared with the model.
    pub async fn select(&mut self, which: &Mailbox, examine: bool) -> Result<(), Failure> {
        let Some(at) = self.pick_mailbox(which, ANY_COUNT) else { return Ok(()) };
        let Some(name) = self.model.mailboxes.get(at).map(|m| m.name.clone()) else { return Ok(()) };
        self.model.current = None;
        let verb = if examine { "EXAMINE" } else { "SELECT" };
        let outcome = self.command(&format!("{verb} {}", quoted(&name)), Expected::default()).await?;
        let wrong = |what: String| Err(Failure::Wrong(format!("{verb} {name}: {what}")));
        let Some(exists) = outcome.exists else { return wrong("no EXISTS".into()) };
        let tracked = self.shared.options.workload.track == Track::Messages;
        let Some(mailbox) = self.model.mailboxes.get_mut(at) else { return Ok(()) };
        if let Some(known) = mailbox.exists.filter(|_| tracked) {
            if exists < known {
                return wrong(format!("{exists} messages, {known} must be there"));
            }
            if exists > known && !mailbox.is_inbox() {
                return wrong(format!("{exists} messages, only {known} were put there"));
            }
        }
        let validity = outcome.validity.unwrap_or(0);
        if tracked && mailbox.validity != 0 && validity != mailbox.validity {
            return wrong(format!("UIDVALIDITY {validity}, was {}", mailbox.validity));
        }
        mailbox.validity = validity;
        mailbox.exists = Some(exists);
        self.model.current = Some(at);
        self.model.read_only = examine;
        if *which == Mailbox::Fresh {
            self.model.not_fresh.insert(name);
        }
        Ok(())
    }

    /// UIDs of the messages that a step names; empty if there are no such messages.
    pub fn pick_messages(&mut self, which: &Messages) -> Vec<u32> {
        let Some(mailbox) = self.model.here() else { return Vec::new() };
        let known = &mailbox.messages;
        let uids = |range: std::ops::Range<usize>| known[range].iter().map(|m| m.uid).collect::<Vec<_>>();
        let picked = match which {
            Messages::All | Messages::New => uids(0..known.len()),
            Messages::One => self.random.pick(known).map(|m| vec![m.uid]).unwrap_or_default(),
            Messages::Same => {
                let here = |uid: &&u32| known.binary_search_by_key(*uid, |m| m.uid).is_ok();
                self.model.same.iter().filter(here).copied().collect()
            }
            Messages::Last => uids(known.len().saturating_sub(1)..known.len()),
            Messages::LastN(n) => uids(known.len().saturating_sub(*n as usize)..known.len()),
            Messages::LastSame => uids(known.len().saturating_sub(self.model.same.len())..known.len()),
            Messages::Range(n) => {
                let length = (*n as usize).min(known.len());
                let start = self.random.index(known.len() - length + 1);
                uids(start..start + length)
            }
            Messages::Unseen => {
                let unseen: Vec<u32> =
                    known.iter().filter(|m| m.flags.is_some_and(|f| f & SEEN == 0)).map(|m| m.uid).collect();
                self.random.pick(&unseen).map(|u| vec![*u]).unwrap_or_default()
            }
        };
        if !matches!(which, Messages::All | Messages::New | Messages::Same) {
            self.model.same.clone_from(&picked);
        }
        picked
    }

    /// FETCH; what comes is followed, whole messages are verified.
    pub async fn fetch(&mut self, which: &Messages, items: &str) -> Result<(), Failure> {
        if self.shared.options.workload.track == Track::Static {
            return self.fetch_static(items).await;
        }
        let bodies = items.contains("BODY[]") || items.contains("BODY.PEEK[]");
        let Some(mailbox) = self.model.here() else { return Ok(()) };
        let (exists, first) = match which {
            Messages::New => (mailbox.count(), mailbox.shown as u32 + 1),
            _ => (mailbox.count(), 1),
        };
        if matches!(which, Messages::All | Messages::New) {
            if exists < first {
                return Ok(());
            }
            let enough = Some(enough_of(items));
            let expected = Expected { wanted: Wanted::From(first), bodies, enough, ..Expected::default() };
            self.command(&format!("FETCH {first}:* ({items})"), expected).await?;
            if let Some(mailbox) = self.model.current() {
                mailbox.shown = mailbox.messages.len();
            }
        } else {
            let uids = self.pick_messages(which);
            if uids.is_empty() {
                return Ok(());
            }
            let set = uids.iter().copied().collect::<NumSet>();
            let enough = Some(enough_of(items));
            let expected =
                Expected { wanted: Wanted::Uids(uids.clone()), bodies, enough, ..Expected::default() };
            self.command(&format!("UID FETCH {set} ({items})"), expected).await?;
            // RFC 9051 §6.4.5: BODY[] sets \Seen, BODY.PEEK[] does not.
            if items.contains("BODY[") && !self.model.read_only {
                for uid in uids {
                    if let Some(message) = self.model.current().and_then(|m| m.by_uid(uid)) {
                        message.flags = message.flags.map(|f| f | SEEN);
                    }
                }
            }
        }
        Ok(())
    }

    /// FETCH 1:* of a mailbox that does not change: counted and compared with the first time.
    async fn fetch_static(&mut self, items: &str) -> Result<(), Failure> {
        let Some(mailbox) = self.model.here() else { return Ok(()) };
        let (name, exists) = (mailbox.name.clone(), u64::from(mailbox.count()));
        if exists == 0 {
            return Ok(());
        }
        let enough = Some(enough_to_sum(items));
        let expected = Expected { wanted: Wanted::Count(Sum::default()), enough, ..Expected::default() };
        let outcome = self.command(&format!("FETCH 1:* ({items})"), expected).await?;
        let now = outcome.sum.unwrap_or_default();
        if now.0 != exists {
            return Err(Failure::Wrong(format!("{name}: FETCH 1:* gave {} of {exists} messages", now.0)));
        }
        match self.shared.compare_listing(self.who.account, &name, now) {
            Some(what) => Err(Failure::Wrong(what)),
            None => Ok(()),
        }
    }

    /// SEARCH; the answer is compared with the model.
    pub async fn search(&mut self, what: &Criterion) -> Result<(), Failure> {
        let Some(mailbox) = self.model.here() else { return Ok(()) };
        let mut subject = 0;
        let program = match what {
            Criterion::Subject => {
                let known: Vec<u64> = mailbox.messages.iter().map(|m| m.serial).filter(|s| *s != 0).collect();
                let Some(serial) = self.random.pick(&known) else { return Ok(()) };
                subject = *serial;
                format!("SUBJECT \"{}\"", serial_token(subject))
            }
            Criterion::Unseen => "UNSEEN".to_owned(),
            Criterion::Deleted => "DELETED".to_owned(),
            Criterion::Raw(program) => program.clone(),
        };
        let mut found = self.command(&format!("UID SEARCH {program}"), Expected::default()).await?.found;
        if matches!(what, Criterion::Raw(_)) {
            return Ok(());
        }
        found.sort_unstable();
        let Some(mailbox) = self.model.here() else { return Ok(()) };
        let must = |m: &Message| match what {
            Criterion::Subject => Some(m.serial == subject).filter(|_| m.serial != 0),
            Criterion::Unseen => m.flags.map(|f| f & SEEN == 0),
            Criterion::Deleted => m.flags.map(|f| f & DELETED != 0),
            Criterion::Raw(_) => None,
        };
        match misnamed(&mailbox.messages, &found, must) {
            Some((uid, how)) => Err(Failure::Wrong(format!("SEARCH {program} {how} UID {uid}"))),
            None => Ok(()),
        }
    }

    /// STATUS; MESSAGES is compared with the model.
    pub async fn status(&mut self, which: &Mailbox, items: &str) -> Result<(), Failure> {
        let Some(at) = self.pick_mailbox(which, ANY_COUNT) else { return Ok(()) };
        let Some(mailbox) = self.model.mailboxes.get(at) else { return Ok(()) };
        let (name, known, selected) = (mailbox.name.clone(), mailbox.exists, self.model.current == Some(at));
        let inbox = mailbox.is_inbox();
        let outcome =
            self.command(&format!("STATUS {} ({items})", quoted(&name)), Expected::default()).await?;
        let messages = outcome.status.and_then(|(_, items)| items.into_iter().find(|(n, _)| n == "MESSAGES"));
        let (Some((_, now)), Some(known)) = (messages, known) else { return Ok(()) };
        let known = u64::from(known);
        if now < known || (now > known && !inbox && !selected) {
            return Err(Failure::Wrong(format!("STATUS {name}: {now} messages, {known} are known")));
        }
        Ok(())
    }

    /// IDLE for this time.
    pub async fn idle(&mut self, seconds: f64) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let shared = self.shared.clone();
        let client = self.link.client.as_mut().ok_or(Failure::Stopped)?;
        let mut follow = super::follow::Follow::mailbox(self.model.current());
        if let Err(refused) = client.idle(&mut follow).await? {
            return Err(Failure::Refused { command: "IDLE".into(), text: refused.text });
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            tokio::select! {
                heard = client.listen(&mut follow, left) => { heard?; }
                () = shared.phase.stopping() => break,
            }
        }
        let completion = client.done(&mut follow).await?;
        super::session::conclude("IDLE", completion, follow).map(drop)
    }

    /// Waits until the message sent last is in INBOX, which is selected.
    pub async fn await_delivery(&mut self, seconds: f64) -> Result<(), Failure> {
        const HEADER: &str = "UID FLAGS BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]";
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let serial = self.model.last_sent;
        self.command("NOOP", Expected::default()).await?;
        loop {
            self.fetch(&Messages::New, HEADER).await?;
            let there = |m: &super::model::MailboxModel| m.messages.iter().rev().any(|m| m.serial == serial);
            if self.model.here().is_some_and(there) {
                return Ok(());
            }
            if Instant::now() >= until {
                let what =
                    format!("{} was accepted and is not in INBOX after {seconds} s", serial_token(serial));
                return Err(Failure::NotDelivered(what));
            }
            if self.shared.phase.is_stopping() {
                return Err(Failure::Stopped);
            }
            self.until_something_new(Duration::from_secs(1)).await?;
        }
    }

    /// IDLE until mail comes, or a short sleep and NOOP where there is no IDLE.
    async fn until_something_new(&mut self, timeout: Duration) -> Result<(), Failure> {
        let client = self.link.client.as_mut().ok_or(Failure::Stopped)?;
        if !client.capabilities().has("IDLE") {
            tokio::time::sleep(Duration::from_millis(10)).await;
            return self.command("NOOP", Expected::default()).await.map(drop);
        }
        let mut follow = super::follow::Follow::mailbox(self.model.current());
        if let Err(refused) = client.idle(&mut follow).await? {
            return Err(Failure::Refused { command: "IDLE".into(), text: refused.text });
        }
        let until = Instant::now() + timeout;
        while follow.exists.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !client.listen(&mut follow, left).await? {
                break;
            }
        }
        let completion = client.done(&mut follow).await?;
        super::session::conclude("IDLE", completion, follow).map(drop)
    }
}

/// The first message that a search leaves out or names wrongly, and which of both it does. Messages
/// and `found` ascend by UID. `must`: whether a message must be found, if that is known.
fn misnamed(
    messages: &[Message],
    found: &[u32],
    must: impl Fn(&Message) -> Option<bool>,
) -> Option<(u32, &'static str)> {
    let mut at = 0;
    messages.iter().find_map(|message| {
        while found.get(at).is_some_and(|uid| *uid < message.uid) {
            at += 1;
        }
        let is = found.get(at) == Some(&message.uid);
        let must = must(message).filter(|must| *must != is)?;
        Some((message.uid, if must { "leaves out" } else { "names" }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_wrong_search_results_are_found() {
        let flags = [Some(0), Some(SEEN), None, Some(0), Some(SEEN)];
        let messages: Vec<Message> =
            (1u32..).zip(flags).map(|(n, flags)| Message { uid: n * 10, serial: 0, flags }).collect();
        let unseen = |m: &Message| m.flags.map(|f| f & SEEN == 0);
        let check = |found: &[u32]| misnamed(&messages, found, unseen);
        assert_eq!(check(&[10, 40]), None);
        assert_eq!(check(&[5, 10, 10, 30, 35, 40, 99]), None, "others and unknown ones may be named");
        assert_eq!(check(&[10]), Some((40, "leaves out")));
        assert_eq!(check(&[40]), Some((10, "leaves out")));
        assert_eq!(check(&[]), Some((10, "leaves out")));
        assert_eq!(check(&[10, 20, 40]), Some((20, "names")));
        assert_eq!(check(&[10, 40, 50]), Some((50, "names")));
    }
}
