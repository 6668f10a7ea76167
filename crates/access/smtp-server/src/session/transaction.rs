//! A mail transaction: MAIL, RCPT, and the commands that begin the message (RFC 5321 §3.3).

use posthaste_delivery::ResolveError;
use posthaste_directory::{Target, normal_domain};
use posthaste_queue::Priority;

use super::envelope::{Addressee, EnvelopeFull, Transaction};
use super::{Action, Session, Stage, replies};
use crate::address::{Mailbox, ReversePath};
use crate::command::{BodyKind, MailParameters, RcptParameters};
use crate::reply::Reply;
use crate::syntax::SyntaxError;
use crate::{Role, SenderRule};

impl Session {
    pub(super) fn mail(&mut self, from: ReversePath, mut parameters: MailParameters, room: usize) -> Action {
        let Some(_) = &self.greeting else {
            return self.mistake(replies::sequence("Greet first"));
        };
        if self.role == Role::Submission && self.account.is_none() {
            // RFC 4954 §6, RFC 6409 §4.3.
            return self.mistake(replies::login_required());
        }
        if self.transaction.is_some() {
            return self.mistake(replies::sequence("One transaction at a time: RSET or finish it"));
        }
        if parameters.require_tls && !self.offers_require_tls() {
            return self.mistake(replies::needs_tls());
        }
        let is_of_dsn = parameters.ret.is_some() || parameters.envid.is_some();
        if !self.reports() && (is_of_dsn || parameters.priority.is_some()) {
            return self.mistake(replies::syntax(&SyntaxError::Parameter, replies::PathOf::Sender));
        }
        if let Some(size) = parameters.size {
            if size > self.options.message_size_max as u64 {
                return Action::Reply(replies::too_large(self.options.message_size_max));
            }
            if size > room as u64 {
                return Action::Reply(replies::no_room());
            }
        }
        // RFC 6710 §4.1, §9: an unauthenticated client gets no priority.
        self.is_lowered = self.account.is_none() && parameters.priority > Some(Priority::NORMAL);
        if self.is_lowered {
            parameters.priority = None;
        }
        match from {
            ReversePath::Mailbox(mailbox) if mailbox.needs_utf8() && !parameters.smtputf8 => {
                Action::Reply(replies::needs_smtputf8())
            }
            ReversePath::Mailbox(mailbox)
                if self.role == Role::Submission && self.options.sender != SenderRule::Any =>
            {
                self.pending = Some((ReversePath::Mailbox(mailbox.clone()), parameters));
                Action::CheckSender(mailbox)
            }
            from => Action::Reply(self.begin(from, parameters)),
        }
    }

    pub(super) fn begin(&mut self, from: ReversePath, parameters: MailParameters) -> Reply {
        self.transaction = Some(Transaction::new(from, parameters));
        self.stage = Stage::Envelope;
        match self.is_lowered {
            true => replies::priority_lowered(),
            false => replies::sender_ok(),
        }
    }

    /// Takes the account of the sender address of [`Action::CheckSender`].
    pub fn sender_resolved(&mut self, found: Result<Target, ResolveError>) -> Reply {
        let Some((from, parameters)) = self.pending.take() else {
            return replies::sequence("Send MAIL first");
        };
        let own = self.account.as_ref().map(|account| account.id);
        match found {
            Ok(Target::Account(owner)) if Some(owner.account.id) == own => self.begin(from, parameters),
            Err(ResolveError::Directory(_)) => replies::directory_away(),
            // RFC 6409 §6.1.
            Ok(_) | Err(_) => replies::not_your_address(),
        }
    }

    pub(super) fn rcpt(&mut self, to: Mailbox, parameters: RcptParameters) -> Action {
        let Some(transaction) = self.transaction.as_ref().filter(|_| self.stage == Stage::Envelope) else {
            return self.mistake(replies::sequence("Send MAIL first"));
        };
        if transaction.recipients.len() >= self.options.recipients_max {
            // RFC 5321 §4.5.3.1.10.
            return Action::Reply(replies::too_many_recipients());
        }
        if !self.reports() && parameters != RcptParameters::default() {
            return self.mistake(replies::syntax(&SyntaxError::Parameter, replies::PathOf::Recipient));
        }
        // RFC 6533 §3: UTF-8 as it is only with SMTPUTF8.
        let is_ascii =
            !to.needs_utf8() && parameters.orcpt.as_ref().is_none_or(|orcpt| orcpt.as_str().is_ascii());
        if !is_ascii && !transaction.parameters.smtputf8 {
            return Action::Reply(replies::needs_smtputf8());
        }
        self.pending_recipient = parameters;
        Action::Resolve(to)
    }

    /// Takes the target of the recipient of [`Action::Resolve`].
    pub fn recipient_resolved(&mut self, to: Mailbox, found: Result<Target, ResolveError>) -> Action {
        let relays = self.options.relays && self.may_relay(&to);
        let parameters = std::mem::take(&mut self.pending_recipient);
        let action = match (&mut self.transaction, found) {
            (Some(transaction), Ok(target)) => {
                added(transaction.add(Addressee { to, parameters, target: Some(target) }))
            }
            (Some(transaction), Err(ResolveError::NotLocal)) if relays => {
                added(transaction.add(Addressee { to, parameters, target: None }))
            }
            // LMTP peers relay what others sent, so an unknown recipient is no mistake of theirs.
            (Some(_), Err(error)) if self.role == Role::Lmtp => Action::Reply(replies::resolve(&error)),
            (Some(_), Err(error)) => self.mistake(replies::resolve(&error)),
            (None, _) => self.mistake(replies::sequence("Send MAIL first")),
        };
        self.bounded(action)
    }

    /// RFC 5321 §3.6.2: mail is relayed for our own users, and for domains that the administrator
    /// named.
    fn may_relay(&self, to: &Mailbox) -> bool {
        match self.role {
            Role::Lmtp => false,
            Role::Submission => self.account.is_some(),
            Role::Smtp => {
                let Some((local, domain)) = to.as_str().rsplit_once('@') else { return false };
                // The next host may split such a local part, and relay for anybody.
                let is_routed = local.contains(['@', '%', '!']);
                let ours = &self.options.relay_domains;
                !is_routed && normal_domain(domain).is_ok_and(|domain| ours.contains(&domain))
            }
        }
    }

    pub(super) fn data(&mut self) -> Action {
        match self.ready(Stage::Envelope) {
            // RFC 3030 §3: octets that are no lines come by BDAT.
            Ok(()) if self.is_binary() => self.mistake(replies::sequence("Binary mail must be sent by BDAT")),
            Ok(()) => Action::Data(replies::start_mail_input()),
            Err(reply) => self.mistake(reply),
        }
    }

    fn is_binary(&self) -> bool {
        let body = self.transaction.as_ref().and_then(|transaction| transaction.parameters.body);
        body == Some(BodyKind::BinaryMime)
    }

    pub(super) fn bdat(&mut self, size: u64, last: bool) -> Action {
        match self.ready(self.stage) {
            Ok(()) => {
                self.stage = Stage::Chunks;
                Action::Chunk { size, last }
            }
            // RFC 3030 §2: the octets follow whatever we answer, and must not be taken for
            // commands.
            Err(reply) => {
                self.errors += 1;
                Action::Discard { size, reply }
            }
        }
    }

    /// RFC 4468 §3
    pub(super) fn burl(&mut self, url: String, last: bool) -> Action {
        if self.role != Role::Submission {
            return self.mistake(replies::not_implemented());
        }
        match self.ready(self.stage) {
            Ok(()) => {
                self.stage = Stage::Chunks;
                Action::Url { url, last }
            }
            Err(reply) => self.mistake(reply),
        }
    }

    /// A URL names nothing that may be sent. The transaction is over.
    pub fn url_refused(&mut self) -> Action {
        self.reset();
        let action = self.mistake(replies::url_refused());
        self.bounded(action)
    }

    fn ready(&self, stage: Stage) -> Result<(), Reply> {
        match &self.transaction {
            None => Err(replies::sequence("Send MAIL first")),
            // RFC 2033 §4.2: no message without a recipient.
            Some(transaction) if transaction.recipients.is_empty() => Err(replies::no_recipients()),
            // RFC 3030 §2: DATA and BDAT cannot be mixed.
            Some(_) if self.stage != stage => Err(replies::sequence("The message is being sent by BDAT")),
            Some(_) => Ok(()),
        }
    }
}

/// The answer to a recipient. RFC 5321 §4.5.3.1.10: the client sends the rest in another
/// transaction, so that it is no mistake.
fn added(outcome: Result<(), EnvelopeFull>) -> Action {
    Action::Reply(match outcome {
        Ok(()) => replies::recipient_ok(),
        Err(EnvelopeFull) => replies::too_many_recipients(),
    })
}
