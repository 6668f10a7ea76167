//! Mail for a group: one copy for each account in it, one item in the queue for all others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use posthaste_authentication::{Origin, reading_header, results, srs};
use posthaste_delivery::DeliveryError;
use posthaste_directory::{DirectoryError, Expansion, Group, Recipient, ResolveError, Target};
use posthaste_net::{Copier, joined};
use posthaste_queue::{self as queue, Failure, Local, Missed, QueueError, Refusal, Success};

use crate::chain::Chain;
use crate::compose::{self, Refused};
use crate::dsn_request::DsnRequest;
use crate::filter::{Delivered, Envelope, Filter, Refusals, Undelivered};
use crate::mail::RemoteClient;
use crate::send::{NotSent, was_sent_on_by};

/// A message for a group, as its members get it.
struct GroupMail<'m> {
    group: &'m Group,
    /// With its trace fields, without Return-Path.
    text: Bytes,
    /// The address for reports: the group's owner, or the sender. Empty for no reports.
    from: &'m str,
    smtputf8: bool,
    is_quarantined: bool,
    chain: Chain<'m>,
}

impl Filter {
    /// The target of mail for an address.
    #[boxed]
    pub async fn target(&self, address: &str) -> Result<Target, ResolveError> {
        match self.resolve(address).await {
            Ok(recipient) => Ok(Target::Account(recipient)),
            Err(ResolveError::NoSuchUser) if srs::is_rewritten(address) => self.returned(address).await,
            Err(ResolveError::NoSuchUser) => self.delivery.directory().target(address).await,
            Err(error) => Err(error),
        }
    }

    /// A bounce to a rewritten sender of ours goes to the original sender. Any other address of
    /// that form is no recipient, even where a catch-all takes the rest. Otherwise a forged address
    /// would look like a real one.
    async fn returned(&self, address: &str) -> Result<Target, ResolveError> {
        let Some(relay) = &self.relay else { return Err(ResolveError::NoSuchUser) };
        let original = relay.original_sender(address).await.map_err(|error| match error {
            QueueError::Store(error) => DirectoryError::Store(error).into(),
            QueueError::Record { record, why } => DirectoryError::Record { record, why }.into(),
            error => {
                tracing::error!(%error, address, "the original sender of forwarded mail cannot be looked up");
                ResolveError::NoSuchUser
            }
        })?;
        let members = vec![original.ok_or(ResolveError::NoSuchUser)?];
        Ok(Target::Group(Arc::new(Group { address: address.to_owned(), members, owner: None })))
    }

    /// Delivers one message to each recipient, accounts and groups, and returns one result for
    /// each, in their order. The delivered messages are on disk. A group gets it once, whatever
    /// addresses lead to it.
    pub fn deliver_to<'a>(
        &'a self,
        message: Bytes,
        envelope: Envelope<'a>,
        targets: &'a [Target],
    ) -> BoxFuture<'a, Vec<Delivered>> {
        Box::pin(async move {
            let mut chain = Chain::of(envelope.tls, envelope.needs)
                .submitted_by(envelope.client.account)
                .until(envelope.lease_end);
            // Without a queue, one reply is for all recipients. So a sender over the limit is
            // deferred before any recipient has the message.
            if self.relay.is_none() && envelope.refusals != Refusals::Each {
                // Boxed, as below: most mail is for accounts alone.
                if let Err(error) = Box::pin(self.count_all(envelope.from, chain, targets)).await {
                    return targets.iter().map(|_| Err(error.clone())).collect();
                }
                chain = chain.free();
            }
            let asked_of = |place: usize| envelope.asked.get(place).copied().unwrap_or_default();
            let of_accounts = targets.iter().enumerate().filter_map(|(place, target)| match target {
                Target::Account(recipient) => Some((recipient.clone(), asked_of(place))),
                Target::Group(_) => None,
            });
            let (accounts, asked): (Vec<Recipient>, Vec<DsnRequest<'_>>) = of_accounts.unzip();
            // With a group among the recipients, no script can refuse for all.
            let refusals = match envelope.refusals {
                Refusals::Together if accounts.len() < targets.len() => Refusals::Never,
                refusals => refusals,
            };
            let mut delivered = match accounts.is_empty() {
                true => Vec::new(),
                false => {
                    let envelope = Envelope { refusals, asked: &asked, ..envelope };
                    self.deliver(message.clone(), envelope, &accounts).await
                }
            }
            .into_iter();
            let mut of_groups: HashMap<&str, Delivered> = HashMap::new();
            let mut outcomes = Vec::with_capacity(targets.len());
            for (place, target) in targets.iter().enumerate() {
                outcomes.push(match target {
                    Target::Account(_) => delivered.next().unwrap_or_else(|| Err(interrupted())),
                    Target::Group(group) => match of_groups.get(group.address.as_str()) {
                        Some(outcome) => outcome.clone(),
                        None => {
                            let chain = chain.asked(asked_of(place));
                            let outcome =
                                Box::pin(self.deliver_group(&message, envelope, group, chain)).await;
                            of_groups.insert(&group.address, outcome.clone());
                            outcome
                        }
                    },
                });
            }
            outcomes
        })
    }

    /// Delivers a message to all members of a group. A member that does not get it is reported
    /// to the group's owner, or to the sender. A member that cannot get it now gets it later, once
    /// others have it. Without a queue the sender tries again then: members that have the message
    /// get it a second time, and no member is left out.
    pub(crate) async fn deliver_group(
        &self,
        message: &Bytes,
        envelope: Envelope<'_>,
        group: &Group,
        chain: Chain<'_>,
    ) -> Delivered {
        admit(message, envelope, group).await?;
        let expansion = self.delivery.directory().expand(group).await.map_err(unexpanded)?;
        let (from, asked) = sender_of(group, envelope.from, chain.asked);
        let mail = GroupMail {
            group,
            text: self.group_text(group, message).await,
            from,
            smtputf8: chain.needs.smtputf8 || !envelope.from.is_ascii(),
            is_quarantined: envelope.is_quarantined,
            chain: chain.asked(asked).to_members(),
        };
        let Expansion { here, elsewhere, mut refused, circular, .. } = expansion;
        refused.extend(circular.into_iter().map(|member| (member, CIRCULAR.to_owned())));
        let count = here.len() + elsewhere.len();
        if !chain.is_free() {
            let sender = self.copier(envelope.from, chain, group).await;
            self.accounts.count_copies(&sender, count).map_err(Undelivered::TooManyCopies)?;
        }
        let (mut got, mut failed, mut late) = (0, None, Vec::new());
        // Others first: if they cannot be served now, nobody has the message yet, and it comes
        // again for all.
        match self.relay_members(&mail, &elsewhere).await {
            Ok(()) => got += elsewhere.len(),
            Err(error) => {
                refused.extend(elsewhere.iter().map(|member| (member.clone(), error.to_string())));
                temporary(error).map_or(Ok(()), Err)?;
            }
        }
        for (member, outcome) in here.iter().zip(self.deliver_members(&mail, &here).await?) {
            match outcome {
                Ok(_) => got += 1,
                Err(Undelivered::Delivery(error)) if error.is_temporary() => late.push((member, error)),
                Err(error) => {
                    refused.push((member.address.to_string(), error.to_string()));
                    failed = failed.or(Some(error));
                }
            }
        }
        if got == 0 || !self.take_over_members(&mail, &late).await {
            for (member, error) in late {
                refused.push((member.address.to_string(), error.to_string()));
                failed = Some(error.into());
            }
        }
        let refusals = refused.len();
        tracing::info!(group = group.address, from = envelope.from, count, refused = refusals, "expanded");
        // No member has the message: the sender's host keeps it, or reports it.
        if got == 0 {
            return Err(failed.unwrap_or_else(|| nobody_took(group, &refused)));
        }
        self.report_members(&mail, message, refused).await;
        // RFC 3461 §5.2.7.1: what a list does is no part of the delivery to it.
        Ok(Some(if group.owner.is_some() { Success::Delivered } else { Success::Expanded }))
    }

    /// Counts the copies that all these groups make of a message. They are counted together: one by
    /// one, the copies of the first group would use up the limit of the second.
    async fn count_all(&self, from: &str, chain: Chain<'_>, targets: &[Target]) -> Result<(), Undelivered> {
        let (mut counts, mut seen) = (BTreeMap::new(), HashSet::new());
        for target in targets {
            let Target::Group(group) = target else { continue };
            if seen.insert(group.address.as_str()) {
                let expansion = self.delivery.directory().expand(group).await.map_err(unexpanded)?;
                *counts.entry(self.copier(from, chain, group).await).or_default() +=
                    expansion.here.len() + expansion.elsewhere.len();
            }
        }
        for (sender, count) in counts {
            self.accounts.count_copies(&sender, count).map_err(Undelivered::TooManyCopies)?;
        }
        Ok(())
    }

    /// The account, sender or group that copies count for. Without a sender they count for the
    /// group itself. An account that has logged in and a sender of the same name count separately.
    /// So a forger cannot use up what a user may send.
    async fn copier(&self, from: &str, chain: Chain<'_>, group: &Group) -> Copier {
        if let Some(account) = chain.submitter {
            return Copier::Account(account.to_owned());
        }
        Copier::Address(match self.resolve(from).await {
            // Whatever its aliases and details are.
            Ok(recipient) => recipient.account.name.clone(),
            Err(_) if from.is_empty() => group.address.clone(),
            Err(_) => from.to_ascii_lowercase(),
        })
    }

    async fn group_text(&self, group: &Group, message: &Bytes) -> Bytes {
        let trace = self.sent_on_by(&group.address) + &list_fields(group, message).await;
        let text = message.slice_ref(compose::without_return_path(message));
        joined([Bytes::from(trace), text]).await
    }

    /// Delivers to members here: an outcome for each. An error if they must be tried again, all
    /// of them.
    async fn deliver_members(
        &self,
        mail: &GroupMail<'_>,
        members: &[Recipient],
    ) -> Result<Vec<Delivered>, Undelivered> {
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let GroupMail { from, is_quarantined, chain, .. } = *mail;
        let envelope = Envelope {
            from,
            refusals: Refusals::Never,
            is_quarantined,
            tls: chain.tls,
            needs: chain.needs,
            asked: &[],
            client: RemoteClient::default(),
            lease_end: None,
        };
        let return_path = Bytes::from(format!("Return-Path: <{}>\r\n", mail.from));
        let text = joined([return_path, mail.text.clone()]).await;
        let outcomes = self.deliver_filtered(text, envelope, members, mail.chain).await;
        if self.relay.is_some() {
            return Ok(outcomes);
        }
        // If an account is over its quota, the others must not get the message again.
        let is_for_now = |error: &DeliveryError| error.is_temporary() && !is_over_quota(error);
        for outcome in &outcomes {
            if let Err(Undelivered::Delivery(error)) = outcome
                && is_for_now(error)
            {
                return Err(error.clone().into());
            }
        }
        Ok(outcomes)
    }

    /// Makes the queue deliver to members here later. Returns whether it does.
    async fn take_over_members(&self, mail: &GroupMail<'_>, late: &[(&Recipient, DeliveryError)]) -> bool {
        let Some(relay) = self.relay.as_ref().filter(|_| !late.is_empty()) else { return late.is_empty() };
        let envelope = queue::Envelope {
            tls: mail.chain.tls,
            smtputf8: mail.smtputf8,
            binary: mail.chain.needs.binary,
            account: mail.chain.submitter.map(str::to_owned),
            ..mail.chain.asked.envelope(mail.from, &[])
        };
        let missed = late.iter().map(|(member, error)| Missed {
            to: mail.chain.asked.to(member.address.as_str()),
            failure: Failure::of_delivery(error),
        });
        let here = if mail.is_quarantined { Local::Junk } else { Local::Inbox };
        let taken = relay.take_over(mail.text.clone(), &envelope, missed.collect(), here).await;
        if let Err(error) = &taken {
            tracing::error!(group = mail.group.address, %error, "members of a group do not get a message later");
        }
        taken.is_ok()
    }

    /// Members in other domains. They get no junk: SPF passes for a sender of ours, so a forged
    /// author would pass DMARC there. Other servers would take this one for its source.
    async fn relay_members(&self, mail: &GroupMail<'_>, members: &[String]) -> Result<(), NotSent> {
        let Some(first) = members.first() else { return Ok(()) };
        if mail.is_quarantined {
            return Err(NotSent::Junk(first.clone()));
        }
        let relay = self.relay.as_ref().ok_or_else(|| NotSent::NoRelay(first.clone()))?;
        let smtputf8 = mail.smtputf8 || !mail.from.is_ascii() || members.iter().any(|to| !to.is_ascii());
        let from = relay
            .forwarded_sender(mail.from, &mail.group.address, &mail.text)
            .await
            .map_err(Refusal::from)?;
        let envelope = |from: &str, to: &[&str]| queue::Envelope {
            tls: mail.chain.tls,
            smtputf8,
            binary: mail.chain.needs.binary,
            account: mail.chain.submitter.map(str::to_owned),
            ..mail.chain.asked.envelope(from, to)
        };
        let (mut others, mut envelopes) = (Vec::new(), Vec::new());
        for member in members {
            let owner = mail.group.owner.as_deref().filter(|owner| *owner == mail.from);
            let sender = match owner {
                Some(owner) => relay.member_sender(owner, member).await.map_err(Refusal::from)?,
                None => None,
            };
            match sender {
                Some(sender) => envelopes.push(envelope(&sender, &[member])),
                None => others.push(member.as_str()),
            }
        }
        if !others.is_empty() {
            envelopes.push(envelope(&from, &others));
        }
        let results = results::own(&mail.text, &self.host);
        let origin = Origin::Elsewhere { results, forwarder: &mail.group.address };
        relay.accept_all(mail.text.clone(), envelopes, origin).await?;
        Ok(())
    }

    /// Reports members that did not get the message.
    async fn report_members(&self, mail: &GroupMail<'_>, message: &Bytes, refused: Vec<(String, String)>) {
        let group = mail.group.address.as_str();
        if refused.is_empty() {
            return;
        }
        let mut words = format!("These members of {group} did not get your message:\r\n");
        for (member, why) in &refused {
            tracing::warn!(group, member, why, "a member of a group gets no mail");
            let _ = write!(words, "\r\n  {member}: {why}\r\n");
        }
        let asked = mail.chain.asked;
        if mail.from.is_empty() || mail.is_quarantined || !asked.wants_failure() {
            return;
        }
        let refused: Vec<_> =
            refused.iter().map(|(member, why)| Refused { recipient: member, reason: why }).collect();
        let original = (&message[..], mail.chain.needs);
        let text = compose::refusal(&self.frame(), mail.from, &words, (asked, &refused), original);
        // Without a sender: nothing answers a report, so it cannot go round.
        if let Err(error) = self.send(Bytes::from(text), "", mail.from, mail.chain, Origin::Server).await {
            tracing::warn!(
                group,
                to = mail.from,
                error = error.to_string(),
                "the report about members of a group cannot be delivered"
            );
        }
    }
}

/// The fields of a list (RFC 2919 §2): programs of members sort by them, and answer no such mail. A
/// group is a list if it has an owner. A message that has them comes from another list.
async fn list_fields(group: &Group, message: &Bytes) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_list = |(name, domain): &(&str, &str)| {
        group.owner.is_some() && !name.is_empty() && name.chars().chain(domain.chars()).all(is_plain)
    };
    let Some((name, domain)) = group.address.rsplit_once('@').filter(is_list) else { return String::new() };
    let has = |message: Bytes| {
        ["List-Id", "Precedence"].map(|name| compose::fields(&message, name).next().is_some())
    };
    let [has_id, has_precedence] = reading_header(None, message, has).await;
    let mut fields = String::new();
    if !has_id {
        let _ = write!(fields, "List-Id: <{name}.{domain}>\r\n");
    }
    if !has_precedence {
        fields.push_str("Precedence: list\r\n");
    }
    fields
}

/// Why a member through which a group would contain itself gets no mail.
const CIRCULAR: &str = "it leads back to the group";

/// The reason why members elsewhere must be tried again. There is none if they will never get the
/// message.
fn temporary(error: NotSent) -> Option<Undelivered> {
    match error {
        NotSent::Delivery(error) | NotSent::Relay(Refusal::Queue(QueueError::Delivery(error)))
            if error.is_temporary() =>
        {
            Some(error.into())
        }
        NotSent::Store(error) | NotSent::Relay(Refusal::Queue(QueueError::Store(error))) => {
            Some(DeliveryError::Store(error).into())
        }
        NotSent::Relay(Refusal::Queue(error)) => Some(DeliveryError::Interrupted(error.to_string()).into()),
        _ => None,
    }
}

fn is_over_quota(error: &DeliveryError) -> bool {
    matches!(error.kind(), posthaste_delivery::ErrorKind::OverQuota)
}

/// The sender for the members, and the reports that it has requested.
fn sender_of<'m>(group: &'m Group, from: &'m str, requested: DsnRequest<'m>) -> (&'m str, DsnRequest<'m>) {
    match &group.owner {
        // RFC 5321 §4.5.5: mail without a sender gets none. RFC 3461 §5.2.7.1: the sender of a
        // list has requested nothing.
        Some(owner) if !from.is_empty() => (owner.as_str(), DsnRequest::default()),
        _ => (from, requested),
    }
}

/// No member has the message. The first refusal gives the reason.
fn nobody_took(group: &Group, refused: &[(String, String)]) -> Undelivered {
    let why = refused.first().map(|(member, why)| format!(": {member}: {why}")).unwrap_or_default();
    Undelivered::Rejected(format!("no member of the group {} accepts the message{why}", group.address))
}

fn interrupted() -> Undelivered {
    DeliveryError::Interrupted("no answer for this recipient".into()).into()
}

/// Refuses mail that a group does not take at all.
async fn admit(message: &Bytes, envelope: Envelope<'_>, group: &Group) -> Result<(), Undelivered> {
    // Otherwise a host that has seen such an address could make this server send to its owner.
    if srs::is_rewritten(&group.address) && !envelope.from.is_empty() {
        return Err(Undelivered::Rejected("that address takes only reports, which have no sender".into()));
    }
    if was_sent_on_by(message, &group.address).await {
        return Err(Undelivered::Rejected(
            "the message comes back to the group: it goes round in a loop".into(),
        ));
    }
    Ok(())
}

fn unexpanded(error: ResolveError) -> Undelivered {
    match error {
        ResolveError::Directory(DirectoryError::Store(error)) => DeliveryError::Store(error).into(),
        ResolveError::Invalid(_) => {
            Undelivered::Rejected("the group and the groups in it have too many members".into())
        }
        error => DeliveryError::Interrupted(error.to_string()).into(),
    }
}
