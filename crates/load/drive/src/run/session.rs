//! A virtual user's IMAP session: it connects, sends commands, and leaves.

use std::time::Instant;

use posthaste_imap_client::fetch::Enough;
use posthaste_imap_client::listing::Listed;
use posthaste_imap_client::{Client, Completion};
use posthaste_load_workload::{Mailbox, Track, TransactionStep};

use super::failure::Failure;
use super::follow::{Follow, Wanted};
use super::model::{Message, is_ours};
use super::user::User;

/// The results of an answered command, besides those that went into the model.
pub struct Outcome {
    /// The completion of the command: OK.
    pub completion: Completion,
    /// EXISTS as announced.
    pub exists: Option<u32>,
    /// UIDVALIDITY as announced.
    pub validity: Option<u32>,
    /// Numbers found.
    pub found: Vec<u32>,
    /// Mailboxes listed.
    pub listed: Vec<Listed>,
    /// STATUS items.
    pub status: Option<(String, Vec<(String, u64)>)>,
    /// Text with COPYUID.
    pub copied: Option<String>,
    /// The expunged messages.
    pub expunged: Vec<Message>,
    /// The sum, if one was wanted.
    pub sum: Option<(u64, u64)>,
}

/// The manner of sending a command, besides its words.
#[derive(Default)]
pub struct Expected {
    /// FETCH responses that must come.
    pub wanted: Wanted,
    /// Messages may vanish.
    pub expunging: bool,
    /// Whole messages are fetched: foreign ones in place of ours are wrong.
    pub bodies: bool,
    /// The items of its FETCH responses that are read; all of them without it.
    pub enough: Option<Enough>,
}

impl User {
    /// Connects, logs in, does the opening steps.
    pub async fn open(&mut self) -> Result<(), Failure> {
        let mut client = Client::connect(&self.dialer(), &self.server().endpoint, self.source()).await?;
        client.login(&self.who.name, &self.who.password).await?;
        client.learn_capabilities().await?;
        self.link.bytes_before = (0, 0);
        self.link.client = Some(client);
        self.model.current = None;
        self.went_online();
        self.learn_mailboxes().await?;
        for step in self.shared.clone().options.workload.opening.iter() {
            if self.is_offered(step) {
                self.timed_step(step).await?;
            }
        }
        Ok(())
    }

    /// Lists the mailboxes if steps will choose among them and they are not known yet.
    async fn learn_mailboxes(&mut self) -> Result<(), Failure> {
        let workload = &self.shared.options.workload;
        let chooses = |step: &TransactionStep| {
            let mailbox = match step {
                TransactionStep::Select { mailbox, .. }
                | TransactionStep::Status(mailbox, _)
                | TransactionStep::Append(mailbox) => mailbox,
                TransactionStep::Copy(_, mailbox) | TransactionStep::Move(_, mailbox) => mailbox,
                TransactionStep::Create | TransactionStep::Delete | TransactionStep::Rename => return true,
                _ => return false,
            };
            matches!(mailbox, Mailbox::Random | Mailbox::Other | Mailbox::Fresh)
        };
        let steps = workload.transactions.iter().flat_map(|t| &t.steps).chain(&workload.opening);
        if self.model.mailboxes.is_empty() && steps.into_iter().any(chooses) {
            self.list("*").await?;
        }
        Ok(())
    }

    /// LIST; the answer is compared with the mailboxes known.
    pub async fn list(&mut self, pattern: &str) -> Result<(), Failure> {
        let outcome = self.command(&format!("LIST \"\" \"{pattern}\""), Expected::default()).await?;
        let names: Vec<&str> =
            outcome.listed.iter().filter(|l| l.selectable).map(|l| l.name.as_str()).collect();
        if pattern != "*" {
            return Ok(());
        }
        if self.model.mailboxes.is_empty() {
            let ours = names.iter().any(|n| is_ours(n));
            let used = names.iter().filter(|n| !ours || is_ours(n) || n.eq_ignore_ascii_case("INBOX"));
            self.model.listed(used.copied());
            return Ok(());
        }
        if self.shared.options.workload.track == Track::Static {
            return Ok(());
        }
        let missing =
            self.model.mailboxes.iter().find(|m| !m.is_inbox() && !names.contains(&m.name.as_str()));
        let extra = names.iter().find(|n| is_ours(n) && !self.model.mailboxes.iter().any(|m| m.name == **n));
        match (missing, extra) {
            (Some(m), _) => Err(Failure::Wrong(format!("LIST leaves out {}", m.name))),
            (_, Some(name)) if !self.model.uncertain_names => {
                Err(Failure::Wrong(format!("LIST names {name}, which does not exist")))
            }
            _ => Ok(()),
        }
    }

    /// Sends a command, follows its answers, and returns the result if the answer was OK and
    /// correct.
    pub async fn command(&mut self, line: &str, expected: Expected) -> Result<Outcome, Failure> {
        let tracked = self.shared.options.workload.track == Track::Messages;
        let client = self.link.client.as_mut().ok_or(Failure::Stopped)?;
        let book = self.shared.ledger.as_ref().map(|ledger| (ledger, self.who.account));
        let mailbox = if tracked { self.model.current() } else { None };
        let before = mailbox.as_ref().and_then(|m| m.exists);
        let mut follow = Follow::mailbox(mailbox).wanting(expected.wanted);
        follow.expunging = expected.expunging;
        follow.bodies = expected.bodies;
        follow.enough = expected.enough;
        follow.book = book;
        let completion = client.command(line, &mut follow).await?;
        self.used.fetched += follow.fetched;
        if completion.is_ok() {
            follow.check_complete(before);
        }
        conclude(line, completion, follow)
    }

    /// Logs out.
    pub async fn close(&mut self) -> Result<(), Failure> {
        self.went_offline();
        match self.link.client.take() {
            Some(client) => Ok(client.logout().await?),
            None => Ok(()),
        }
    }

    /// Whether the server offers the capability that a step needs; for optional commands written
    /// out in workloads.
    pub fn is_offered(&self, step: &TransactionStep) -> bool {
        let TransactionStep::Raw(command) = step else { return true };
        let Some(client) = &self.link.client else { return true };
        let has = |word| client.capabilities().has(word);
        match command.split(' ').next().unwrap_or_default() {
            "GETQUOTAROOT" | "GETQUOTA" => has("QUOTA"),
            "NAMESPACE" => has("NAMESPACE") || has("IMAP4rev2"),
            "MYRIGHTS" | "GETACL" => has("ACL"),
            "ENABLE" => has("ENABLE") || has("IMAP4rev2"),
            "ID" => has("ID"),
            _ => true,
        }
    }

    /// Bytes in and out since the last call.
    pub fn bytes_since(&mut self) -> (u64, u64) {
        let Some(client) = &self.link.client else { return (0, 0) };
        let now = client.bytes();
        let since = (now.0 - self.link.bytes_before.0, now.1 - self.link.bytes_before.1);
        self.link.bytes_before = now;
        since
    }

    /// The end of a pause: false if the run ended.
    pub async fn pause(&self, seconds: f64) -> bool {
        self.shared.phase.sleep_until(Instant::now() + std::time::Duration::from_secs_f64(seconds)).await
    }
}

/// OK and correct, or the party at fault.
pub fn conclude(line: &str, completion: Completion, follow: Follow<'_>) -> Result<Outcome, Failure> {
    let shown = || line.chars().take(120).collect::<String>();
    if let Some(wrong) = follow.wrong {
        return Err(Failure::Wrong(format!("{}: {wrong}", shown())));
    }
    if !completion.is_ok() {
        return Err(Failure::Refused { command: shown(), text: completion.text });
    }
    let listed = follow.listed.all().map_err(|wrong| Failure::Wrong(format!("{}: {wrong}", shown())))?;
    Ok(Outcome {
        completion,
        exists: follow.exists,
        validity: follow.validity,
        found: follow.found,
        listed,
        status: follow.status,
        copied: follow.copied,
        expunged: follow.expunged,
        sum: match follow.wanted {
            Wanted::Count(sum) => Some(sum.essence()),
            _ => None,
        },
    })
}
