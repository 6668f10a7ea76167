//! Scripts that run when a user adds messages to a mailbox or changes their flags (IMAP events,
//! RFC 6785).
//!
//! The annotation `/shared/imapsieve/script` of a mailbox names the script, which is one of the
//! account that the mailbox belongs to. The message is there already, so `keep` leaves it where
//! it is. A run that does not keep it marks it as `\Deleted`. Changes by a script are not events.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use posthaste_delivery::{DeliveryError, NewMessage, SummaryMemory, WorkFor};
use posthaste_directory::{Account, Address, Annotated, DirectoryError, Recipient};
use posthaste_mail_model::{Flag, MailboxId, NumSet, Uid};
use posthaste_net::copying;
use posthaste_sieve::{Effect, Outcome, Script};
use posthaste_store::{FlagChange, Mailbox, Row, StoreError};

use crate::chain::Chain;
use crate::compilation::Wanted;
use crate::compiled::Scripts;
use crate::file::{Filing, flags};
use crate::filter::Filter;
use crate::mail::{Mail, RemoteClient, Trigger};
use crate::required_extensions::RequiredExtensions;
use crate::run::run_script;
use crate::world::{Cause, MessageEvent, World};

/// The entry that names the script (RFC 6785 §2).
pub const SCRIPT_ENTRY: &str = "/shared/imapsieve/script";
/// Messages of one event that scripts see: the command waits for their runs, some milliseconds
/// each.
const MESSAGES_MAX: usize = 1_000;

/// An event, for all messages of one command.
#[derive(Debug, Clone, Copy)]
pub struct Event<'e> {
    /// The owner of the mailbox.
    pub owner: &'e Account,
    /// The user that sent the command.
    pub user: &'e Account,
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The event.
    pub cause: Cause,
    /// The messages.
    pub uids: &'e NumSet,
    /// The flags that STORE was about.
    pub flags: &'e [Flag],
}

/// Why a script did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
enum NotRun {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("{0}")]
    Script(String),
}

/// One message of an event.
struct EventMessage {
    uid: Uid,
    octets: u32,
    date: u32,
    flags: Vec<String>,
}

impl Filter {
    /// Runs the script of a mailbox, if it has one, for each message of an event. A failure is
    /// logged and changes nothing: the command was done. Dropping this ends the run that continues.
    pub fn on_event<'a>(&'a self, event: Event<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if event.uids.is_empty() {
                return;
            }
            let ran = match self.named_script(event).await {
                Ok(None) => return,
                // Boxed: few mailboxes have a script, and all commands would hold its state.
                Ok(Some(name)) => Box::pin(self.run_event(event, &name)).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = ran {
                let account = event.owner.name.as_str();
                tracing::warn!(account, mailbox = %event.mailbox, error = error.to_string(), "the Sieve script of a mailbox did not run");
            }
        })
    }

    /// The name of the mailbox's script, if it has one.
    async fn named_script(&self, event: Event<'_>) -> Result<Option<String>, DirectoryError> {
        let mailbox = Annotated::Mailbox(event.mailbox);
        let all = self.delivery.directory().metadata().get(event.owner.id, mailbox).await?;
        let name = all.get(SCRIPT_ENTRY).and_then(|value| str::from_utf8(value).ok());
        Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
    }

    async fn run_event(&self, event: Event<'_>, name: &str) -> Result<(), NotRun> {
        let directory = self.delivery.directory();
        // As it is now: its scripts may have changed since the login.
        let Some(account) = directory.account(&event.owner.name).await? else { return Ok(()) };
        let address = Address::parse(&account.name).map_err(|error| NotRun::Script(error.to_string()))?;
        let wanted = Wanted { account: &account, active: name, site: self.site.as_ref() };
        let scripts = match self.events.known(wanted) {
            Some(scripts) => scripts,
            None => {
                let permit = self.account_permit(account.id, 0).await.ok_or_else(too_many)?;
                let scripts = self.events.of(directory, wanted, &permit).await;
                scripts.map_err(|error| NotRun::Script(error.to_string()))?
            }
        };
        let script = scripts.active.clone();
        let script = script.map_err(|error| NotRun::Script(format!("script {name:?}: {error}")))?;
        let mailbox = self.delivery.store().open(event.mailbox).await?;
        let list = self.delivery.mailboxes(&account).await?;
        let entry = list.entries.iter().find(|entry| entry.id == event.mailbox);
        let shown = entry.map(|entry| entry.name.to_string()).unwrap_or_default();
        let recipient = Recipient { account: Arc::new(account), address, detail: None };
        let sends = AtomicUsize::new(0);
        for seen in seen(&mailbox, event.uids).await? {
            let happened = MessageEvent {
                user: event.user.name.clone(),
                mailbox: shown.clone(),
                cause: event.cause,
                changed: event.flags.iter().map(Flag::to_string).collect::<Vec<_>>().join(" "),
                flags: seen.flags.clone(),
            };
            let user = event.user;
            let run = EventRun { mailbox: &mailbox, recipient: &recipient, user, sends: &sends, seen };
            let uid = run.seen.uid;
            let done = self.run_one(&run, (&script, &scripts), happened).await;
            if let Err(error) = done {
                let account = recipient.account.name.as_str();
                tracing::warn!(account, mailbox = shown, %uid, error = error.to_string(), "a Sieve script failed: the message is unchanged");
            }
        }
        Ok(())
    }

    async fn run_one(
        &self,
        run: &EventRun<'_>,
        (script, scripts): (&Arc<Script>, &Arc<Scripts>),
        happened: MessageEvent,
    ) -> Result<(), NotRun> {
        let EventRun { mailbox, recipient, user, sends, seen } = run;
        let trigger = run.trigger(happened.cause);
        // Before the message is read: many sessions of an account would hold one each.
        let turn = self.stored.take(recipient.account.id, seen.octets).await;
        let _turn = turn.map_err(|_| too_many())?;
        let Some(body) = mailbox.body_of(seen.uid).await? else { return Ok(()) };
        let text = mailbox.read_body(seen.uid, body, 0..u64::MAX).await?;
        let whose = WorkFor::account(recipient.account.id);
        let message = NewMessage { bytes: text.clone(), flags: flags(&seen.flags), date: Some(seen.date) };
        let (message, _held) = self.delivery.incoming_held(whose, message, SummaryMemory::Counted).await?;
        let list = self.delivery.mailboxes(&recipient.account).await?;
        let from = recipient.account.name.as_str();
        let needs = needs_of(&text).await;
        let chain = Chain::stored(needs).counted(sends).submitted_by(Some(&user.name));
        let (served, sent, client) = (&text, &text, RemoteClient::default());
        let mail = Mail { message: &message, served, sent, from, trigger, chain, asked: &[], client };
        let world = self.world(recipient, Arc::clone(scripts), &list, mail);
        let world = World { happened: Some(happened), ..world };
        let permit = self.run_permit(recipient, text.len()).await.ok_or_else(too_many)?;
        let outcome = run_script((Arc::clone(script), world), text.clone(), permit).await;
        let mut outcome = outcome.map_err(NotRun::Script)?;
        // No sender waits for an answer.
        let is_answer = |effect: &Effect| matches!(effect, Effect::Reject { .. } | Effect::Vacation(_));
        if outcome.effects.iter().any(is_answer) {
            return Err(NotRun::Script("\"reject\" and \"vacation\" are for mail that comes in".into()));
        }
        let outcome_held = self.runs.hold(&self.delivery, recipient.account.id, outcome.memory_bytes());
        let _outcome_held = outcome_held.ok_or_else(too_many)?;
        // Rich mail that is edited keeps its original.
        let original = match outcome.headers.is_empty() {
            true => None,
            false => self.delivery.original(body).await?,
        };
        let edited = Mail { sent: original.as_ref().unwrap_or(&text), ..mail };
        let mut filing = Filing::new(&self.delivery, &recipient.account, list, edited);
        let stays = file(&mut filing, mailbox.id(), &outcome, &text).await?;
        outcome.effects.retain(|effect| !matches!(effect, Effect::Keep { .. } | Effect::FileInto { .. }));
        let sent = self.send_all(&mut filing, recipient, &outcome, mail).await;
        sent.map_err(|error| NotRun::Script(error.to_string()))?;
        self.remember_all(recipient, &outcome).await;
        let uids: NumSet = std::iter::once(seen.uid.value()).collect();
        match stays {
            MessageFate::StaysWithFlags(names) if names == seen.flags => {}
            MessageFate::StaysWithFlags(names) => {
                mailbox.store_flags(&uids, FlagChange::Replace, &flags(&names), None).await?;
            }
            // A client that expunges takes it away.
            MessageFate::Leaves => {
                mailbox.store_flags(&uids, FlagChange::Add, &[Flag::Deleted], None).await?;
            }
        }
        Ok(())
    }
}

fn too_many() -> NotRun {
    NotRun::Script("too many Sieve scripts run".into())
}

/// A run for one message.
struct EventRun<'r> {
    mailbox: &'r Arc<Mailbox>,
    recipient: &'r Recipient,
    /// The user that sent the command.
    user: &'r Account,
    /// The messages that scripts have sent because of the command.
    sends: &'r AtomicUsize,
    seen: EventMessage,
}

impl<'r> EventRun<'r> {
    /// How its message came before the script. A STORE shows no author: in a mailbox of another
    /// account, its owner may have written the message in the name of the user who reads it.
    fn trigger(&self, cause: Cause) -> Trigger<'r> {
        let is_author = cause != Cause::Flag || self.user.id == self.recipient.account.id;
        Trigger::Stored { user: self.user, author: is_author.then_some(self.user) }
    }
}

/// The fate of the message in its mailbox.
enum MessageFate {
    StaysWithFlags(Vec<String>),
    Leaves,
}

/// Files copies. Returns what becomes of the message itself.
async fn file(
    filing: &mut Filing<'_>,
    here: MailboxId,
    outcome: &Outcome,
    text: &[u8],
) -> Result<MessageFate, DeliveryError> {
    let mut stays = MessageFate::Leaves;
    for effect in &outcome.effects {
        let (names, version) = match effect {
            Effect::Keep { flags, version, .. } => (flags, *version),
            Effect::FileInto { target, version } if filing.is(target, here).await? => {
                (&target.flags, *version)
            }
            Effect::FileInto { target, version } => {
                filing.file_into(target, *version, outcome).await?;
                continue;
            }
            _ => continue,
        };
        match outcome.edited(version, text) {
            // A message never changes (RFC 9051 §2.3.1.1), so another one comes into its place.
            Some(edited) => filing.put_edited(here, Bytes::from(edited), names).await?,
            None => stays = MessageFate::StaysWithFlags(names.clone()),
        }
    }
    Ok(stays)
}

/// The extensions for a stored message. Another thread looks at a large one: 64 MiB would take some
/// 60 ms in one poll.
async fn needs_of(text: &Bytes) -> RequiredExtensions {
    let text = text.clone();
    copying(text.len(), move || RequiredExtensions::of_stored(&text)).await
}

/// The messages of an event that are still there.
async fn seen(mailbox: &Arc<Mailbox>, uids: &NumSet) -> Result<Vec<EventMessage>, StoreError> {
    let view = mailbox.current().await?;
    let rows = view.rows_of_uids(uids).take(MESSAGES_MAX);
    let names = |row: &Row| view.head().keywords.flags_of(row.flags()).map(|flag| flag.to_string()).collect();
    // A message without items is read with them: its row does not have that size.
    let octets = |row: &Row| if row.lacks_items() { u32::MAX } else { row.size() };
    let message =
        |row: &Row| EventMessage { uid: row.uid(), octets: octets(row), date: row.date(), flags: names(row) };
    Ok(rows.map(|(_, row)| message(row)).collect())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use posthaste_delivery::{Delivery, DeliveryOptions};
    use posthaste_directory::{Directory, NewAccount, Policy};
    use posthaste_mail_model::{FlagSet, MailboxName, Secret};
    use posthaste_net::{COPIED_HERE_MAX, given_to_compute_threads};
    use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};

    use super::*;

    /// A filter, and an account.
    async fn filter() -> (Filter, Account) {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let store = Store::new(Arc::clone(&engine), StoreOptions::default());
        let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
        let delivery = Delivery::new(store, Arc::clone(&directory), DeliveryOptions::default());
        let filter = Filter::new(delivery, None, "mx.example.org");
        let password = Secret::new("correct horse".to_owned());
        let ana = directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        (filter, ana)
    }

    #[tokio::test]
    async fn another_thread_looks_at_the_octets_of_a_large_message() {
        for (octets, is_elsewhere) in [(1000, false), (COPIED_HERE_MAX + 1, true)] {
            let (text, given) = (Bytes::from(vec![b'x'; octets]), given_to_compute_threads());
            assert_eq!(needs_of(&text).await, RequiredExtensions::default());
            assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere), "{octets} octets");
        }
    }

    /// Each APPEND allocated and moved the state of a run, which few of them have.
    #[tokio::test]
    async fn the_state_of_an_event_is_small() {
        let (filter, ana) = filter().await;
        let mailbox = filter.delivery.mailboxes(&ana).await.unwrap().entries[0].id;
        let uids = NumSet::range(1, 1);
        let (owner, user, uids) = (&ana, &ana, &uids);
        let event = Event { owner, user, mailbox, cause: Cause::Append, uids, flags: &[] };
        let size = std::mem::size_of_val(&*filter.on_event(event));
        assert!(size <= 512, "{size} octets");
        filter.on_event(event).await;
    }

    /// Each session of an account read its message, and held it while it waited for the account's
    /// one run.
    #[tokio::test]
    async fn an_account_has_one_large_stored_message_in_memory() {
        let (filter, ana) = filter().await;
        let (delivery, directory) = (&filter.delivery, filter.delivery.directory());
        let script = "require \"imap4flags\"; addflag \"\\\\Flagged\"; keep;";
        directory.scripts().put(&ana, "mark", script).await.unwrap();
        let list = delivery.mailboxes(&ana).await.unwrap();
        let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
        let entry = [(SCRIPT_ENTRY, Some(Bytes::from_static(b"mark")))];
        directory.metadata().set(ana.id, Annotated::Mailbox(mailbox), &entry).await.unwrap();
        for octets in [100, 200 * 1024] {
            let text = format!("Subject: a\r\n\r\n{}\r\n", "x".repeat(octets));
            let message = delivery.incoming(Bytes::from(text), Vec::new(), None).await.unwrap();
            delivery.append(&ana, &delivery.store().destination(mailbox), vec![message]).await.unwrap();
        }
        let flagged = async |uid: u32| {
            let view = delivery.store().open(mailbox).await.unwrap().current().await.unwrap();
            let (_, row) = view.row_of_uid(Uid::new(uid).unwrap()).unwrap();
            row.flags().contains(FlagSet::FLAGGED)
        };
        let sets = [NumSet::range(1, 1), NumSet::range(2, 2)];
        let [small, large] = sets.each_ref().map(|uids| {
            let (owner, user) = (&ana, &ana);
            filter.on_event(Event { owner, user, mailbox, cause: Cause::Flag, uids, flags: &[] })
        });
        // Another session of the account has the turn.
        let held = filter.stored.0.acquire(ana.id).await;
        small.await;
        assert!(flagged(1).await);
        let mut large = pin!(large);
        for _ in 0..2000 {
            assert!(poll_fn(|cx| Poll::Ready(large.as_mut().poll(cx))).await.is_pending());
            tokio::task::yield_now().await;
        }
        drop(held);
        large.await;
        assert!(flagged(2).await);
    }

    /// Many sessions of an account would hold one each.
    #[tokio::test]
    async fn an_account_has_few_long_outcomes_of_events() {
        let (filter, ana) = filter().await;
        let (delivery, directory) = (&filter.delivery, filter.delivery.directory());
        let script =
            format!("require \"editheader\"; addheader \"X-Long\" \"{}\"; keep;", "x".repeat(60_000));
        directory.scripts().put(&ana, "long", &script).await.unwrap();
        let mailbox = delivery.mailboxes(&ana).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
        let entry = [(SCRIPT_ENTRY, Some(Bytes::from_static(b"long")))];
        directory.metadata().set(ana.id, Annotated::Mailbox(mailbox), &entry).await.unwrap();
        let text = Bytes::from_static(b"Subject: a\r\n\r\nb\r\n");
        let message = delivery.incoming(text, Vec::new(), None).await.unwrap();
        delivery.append(&ana, &delivery.store().destination(mailbox), vec![message]).await.unwrap();
        let (owner, user, uids) = (&ana, &ana, &NumSet::range(1, 1));
        let event = || Event { owner, user, mailbox, cause: Cause::Append, uids, flags: &[] };
        let messages =
            async || delivery.store().open(mailbox).await.unwrap().current().await.unwrap().exists();
        let mut held = Vec::new();
        while let Some(permit) = filter.runs.hold(delivery, ana.id, 60_000) {
            held.push(permit);
        }
        filter.on_event(event()).await;
        assert_eq!(messages().await, 1);
        drop(held);
        filter.on_event(event()).await;
        assert_eq!(messages().await, 2, "the edited message is another one");
    }
}
