//! One message for some recipients: finds their scripts, runs them, and files the message.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use parking_lot::Mutex;
use posthaste_delivery::{Delivery, DeliveryError};
use posthaste_directory::{Account, DirectoryError, Recipient, ResolveError, ScriptError};
use posthaste_mail_model::AccountId;
use posthaste_net::Accounts;
use posthaste_queue::{LeaseEnd, Relay, ScriptsRun, Success, TlsRequirement};
use posthaste_sieve::Outcome;
use posthaste_store::MailboxList;
use tokio::runtime::Handle;

use crate::chain::{Chain, DefaultFolder};
use crate::compilation::Wanted;
use crate::compiled::Scripts;
use crate::dsn_request::DsnRequest;
use crate::file::Filing;
use crate::mail::{Mail, RemoteClient, Trigger};
use crate::permit::{RunPermit, Runs, StoredTurns};
use crate::required_extensions::RequiredExtensions;
use crate::run::run_script;
use crate::script_refusal::{ALL_REASONS_LEN_MAX, REASONS_LEN_MAX, RefusalReports, ScriptRefusal};
use crate::scripts::Cache;
use crate::site::SiteScripts;
use crate::world::{World, own_addresses};

/// Accounts that are served at a time: enough for the engine to commit them as one group, and few
/// enough threads that run scripts.
const PARALLEL: usize = 16;

/// Why one recipient did not get the message.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Undelivered {
    /// It could not be stored.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// Groups have made the hour's largest number of copies of the sender's mail.
    #[error(
        "it has to wait: groups make {0} copies an hour of the mail of one sender (`limits.group_copies_per_hour`)"
    )]
    TooManyCopies(u64),
    /// The recipient's script refuses it (RFC 5429 §2), or nobody of a group takes it. The reason
    /// is for the sender.
    #[error("it is refused: {0}")]
    Rejected(String),
}

/// The outcome of a message for one recipient. A success is reported to a sender that requests it
/// (RFC 3461 §5.2.7). There is no success if a script refuses the message and the sender has a
/// report of that, or requested none.
pub type Delivered = Result<Option<Success>, Undelivered>;

/// The recipients for which the protocol can report that a script refuses the message. For the
/// others the sender gets a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// For each by itself: LMTP.
    Each,
    /// For all of them or none: SMTP. Only if nobody else gets the message.
    Together,
    /// For none: somebody else gets the message as well.
    Never,
}

/// The envelope of a message.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'e> {
    /// The reverse path without angle brackets; empty for the null path.
    pub from: &'e str,
    /// The recipients that can be refused.
    pub refusals: Refusals,
    /// The policy of its author's domain sends it to the junk folder (RFC 7489 §6.3): where it
    /// would be kept in INBOX, it goes there. A script may file it elsewhere.
    pub is_quarantined: bool,
    /// The sender's requirement of TLS where the message is sent on.
    pub tls: TlsRequirement,
    /// The client that brought the message.
    pub client: RemoteClient<'e>,
    /// The extensions that the next host must have, if the message is sent on.
    pub needs: RequiredExtensions,
    /// The requested reports for each recipient, in their order; empty if there are none.
    pub asked: &'e [DsnRequest<'e>],
    /// When another server may deliver the same message, if the queue brings it.
    pub lease_end: Option<&'e LeaseEnd>,
}

/// The outcome of a message for one recipient.
#[derive(Debug, Clone)]
pub(crate) enum Served {
    Kept(Success),
    Failed(DeliveryError),
    Rejected(ScriptRefusal),
}

impl From<Result<(), DeliveryError>> for Served {
    fn from(outcome: Result<(), DeliveryError>) -> Self {
        match outcome {
            Ok(()) => Self::Kept(Success::Delivered),
            Err(error) => Self::Failed(error),
        }
    }
}

/// Why a script was not run to its end.
#[derive(Debug, thiserror::Error)]
enum NoOutcome {
    /// It is wrong, or does too much: it would fail for each message.
    #[error("{0}")]
    Broken(String),
    /// It cannot be read for now. The message waits for it: what the script refuses, discards or
    /// sends on must not be filed into INBOX because of a moment's failure.
    #[error(transparent)]
    Later(DeliveryError),
}

impl From<ScriptError> for NoOutcome {
    fn from(error: ScriptError) -> Self {
        match error {
            ScriptError::Directory(DirectoryError::Store(error)) if error.is_temporary() => {
                Self::Later(error.into())
            }
            ScriptError::Directory(error) if error.is_temporary() => {
                Self::Later(DeliveryError::Interrupted(error.to_string()))
            }
            error => Self::Broken(error.to_string()),
        }
    }
}

/// The way in for mail, through the recipients' scripts. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Filter {
    pub(crate) delivery: Delivery,
    pub(crate) relay: Option<Relay>,
    pub(crate) host: Arc<str>,
    cache: Arc<Cache>,
    /// Scripts of mailboxes.
    pub(crate) events: Arc<Cache>,
    pub(crate) site: Option<Arc<SiteScripts>>,
    pub(crate) runs: Runs,
    /// For scripts of mailboxes.
    pub(crate) stored: StoredTurns,
    /// The mail that accounts may send on.
    pub(crate) accounts: Accounts,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The recipients who are one account.
struct Group<'r> {
    account: &'r Account,
    /// Their places among all recipients.
    members: Vec<usize>,
}

impl Filter {
    /// A filter before a delivery, for a server of this name. Without a relay, scripts cannot send
    /// mail to other domains.
    pub fn new(delivery: Delivery, relay: Option<Relay>, host: &str) -> Self {
        let (runs, stored) = (Runs::new(), StoredTurns::new());
        let (cache, events, site) = (Arc::default(), Arc::default(), None);
        let accounts = Accounts::default();
        Self { delivery, relay, host: host.into(), cache, events, site, runs, stored, accounts }
    }

    /// With a way to other domains, or without.
    #[must_use]
    pub fn with_relay(self, relay: Option<Relay>) -> Self {
        let filter = Self { relay, ..self };
        filter.note_site();
        filter
    }

    /// With these scripts of the administrator, instead of those before.
    #[must_use]
    pub fn with_site(self, site: SiteScripts) -> Self {
        let filter = Self { site: Some(Arc::new(site)), ..self };
        filter.note_site();
        filter
    }

    /// With the limits of accounts. Share them with the listeners.
    #[must_use]
    pub fn with_accounts(self, accounts: Accounts) -> Self {
        Self { accounts, ..self }
    }

    /// With this many bytes for compiled scripts, at least [`crate::SCRIPTS_BYTES_LEAST`]. All
    /// clones share them.
    #[must_use]
    pub fn with_scripts_bytes(self, bytes: u64) -> Self {
        self.cache.set_bytes_max(bytes / 2);
        self.events.set_bytes_max(bytes / 2);
        self
    }

    /// Reports, which the way out delivers, go through the administrator's scripts, too.
    fn note_site(&self) {
        if let Some(relay) = &self.relay {
            relay.set_scripts_run(if self.has_site() { ScriptsRun::ForAll } else { ScriptsRun::ForOwners });
        }
    }

    /// Whether scripts of the administrator run for each message.
    fn has_site(&self) -> bool {
        self.site.as_ref().is_some_and(|site| site.runs)
    }

    /// Where mail is stored.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The way to other domains, if there is one.
    pub fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// The recipient at an address.
    #[boxed]
    pub async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        match &self.relay {
            Some(relay) => relay.resolve(address).await,
            None => self.delivery.resolve(address).await,
        }
    }

    /// Whether an account files each message that comes: there is no script and no forward, which
    /// could send it elsewhere.
    pub fn keeps_all(&self, account: &Account) -> bool {
        account.scripts.active.is_none() && account.forward.is_none() && !self.has_site()
    }

    /// Whether an account files each message that comes, and perhaps forwards it as well.
    pub fn keeps_a_copy(&self, account: &Account) -> bool {
        let forwards_all = account.forward.as_ref().is_some_and(|forward| !forward.keep);
        account.scripts.active.is_none() && !forwards_all && !self.has_site()
    }

    /// Delivers one message to each recipient as their scripts want it, and returns one result
    /// for each, in their order. The delivered messages are on disk. Into one mailbox a message
    /// comes once, also if an account is named by several addresses; a script runs for each
    /// address.
    pub fn deliver<'a>(
        &'a self,
        message: Bytes,
        envelope: Envelope<'a>,
        recipients: &'a [Recipient],
    ) -> BoxFuture<'a, Vec<Delivered>> {
        Box::pin(async move {
            let chain = Chain::of(envelope.tls, envelope.needs)
                .submitted_by(envelope.client.account)
                .until(envelope.lease_end);
            if let Err(error) = chain.check_lease() {
                return recipients.iter().map(|_| Err(error.clone().into())).collect();
            }
            let is_plain = |recipient: &Recipient| self.keeps_all(&recipient.account);
            if !envelope.is_quarantined && recipients.iter().all(is_plain) {
                let whose = envelope.work_for(recipients);
                let outcomes = self.delivery.deliver_for(whose, message, recipients).await;
                let kept = |one: Result<_, DeliveryError>| one.map(|_| Some(Success::Delivered));
                return outcomes.into_iter().map(|one| kept(one).map_err(Undelivered::from)).collect();
            }
            // Boxed: most mail meets no script, and does not need its state.
            Box::pin(self.deliver_filtered(message, envelope, recipients, chain)).await
        })
    }

    /// Delivers through the recipients' scripts a message that scripts of this server may have
    /// sent on.
    pub(crate) async fn deliver_filtered(
        &self,
        message: Bytes,
        envelope: Envelope<'_>,
        recipients: &[Recipient],
        chain: Chain<'_>,
    ) -> Vec<Delivered> {
        let (sent, whose) = (message.clone(), envelope.work_for(recipients));
        let forms = match self.delivery.forms(whose, message, recipients, chain.summary_memory()).await {
            Ok(forms) => forms,
            Err(error) => return recipients.iter().map(|_| Err(error.clone().into())).collect(),
        };
        let Envelope { from, is_quarantined, asked, client, .. } = envelope;
        let chain = chain.for_home(if is_quarantined { DefaultFolder::Junk } else { DefaultFolder::Inbox });
        let mail = |account: &Account| Mail {
            message: forms.of(account),
            served: forms.served(),
            sent: &sent,
            from,
            trigger: Trigger::Delivered,
            chain,
            asked,
            client,
        };
        let groups = by_account(recipients);
        let left = Mutex::new(ALL_REASONS_LEN_MAX);
        let serving = groups.iter().map(|group| self.serve(group, recipients, mail(group.account), &left));
        let outcomes = in_order(recipients.len(), &groups, some_at_once(serving).await);
        let is_kept = |done: &Served| matches!(done, Served::Kept(_));
        let needs_report = |(place, done): (usize, &Served)| match (done, recipients.get(place)) {
            (Served::Rejected(refusal), Some(recipient)) => {
                self.needs_report(refusal, mail(&recipient.account).of(place))
            }
            _ => false,
        };
        let can_refuse = match envelope.refusals {
            Refusals::Each => true,
            // A client that is refused sends it again, to all of them.
            Refusals::Together => {
                !outcomes.iter().any(is_kept) && !outcomes.iter().enumerate().any(needs_report)
            }
            Refusals::Never => false,
        };
        let mut reports = RefusalReports::default();
        let mut results = Vec::with_capacity(outcomes.len());
        for (place, (recipient, done)) in recipients.iter().zip(outcomes).enumerate() {
            results.push(match done {
                Served::Kept(success) => Ok(Some(success)),
                Served::Failed(error) => Err(error.into()),
                Served::Rejected(refusal) => {
                    let mail = mail(&recipient.account).of(place);
                    match can_refuse && !self.needs_report(&refusal, mail) {
                        true => Err(Undelivered::Rejected(refusal.reason)),
                        false => self.report_refusal(recipient, &refusal.reason, (mail, &mut reports)).await,
                    }
                }
            });
        }
        results
    }

    /// Whether a report must say why a script refuses a message. A reply of the protocol has no
    /// letters beyond ASCII (RFC 5429 §2.2.1). `ereject` uses the reply nevertheless. So does a
    /// message whose sender can get no report.
    fn needs_report(&self, refusal: &ScriptRefusal, mail: Mail<'_>) -> bool {
        let is_reported = self.relay.is_some()
            && !mail.from.is_empty()
            && mail.chain.home != DefaultFolder::Junk
            && mail.chain.asked.wants_failure();
        is_reported && !refusal.is_strict && !refusal.reason.is_ascii()
    }

    /// One account's recipients, one result each. Reasons of refusals are cut to the octets that
    /// are left for all accounts.
    async fn serve(
        &self,
        group: &Group<'_>,
        recipients: &[Recipient],
        mail: Mail<'_>,
        all_reasons_left: &Mutex<usize>,
    ) -> Vec<Served> {
        let list = match self.delivery.mailboxes(group.account).await {
            Ok(list) => list,
            Err(error) => {
                return group.members.iter().map(|_| Served::Failed(error.clone())).collect();
            }
        };
        let mut filing = Filing::new(&self.delivery, group.account, list, mail);
        let mut served: Vec<(&str, Served)> = Vec::with_capacity(group.members.len());
        let mut reasons_left = REASONS_LEN_MAX;
        let members = group.members.iter().filter_map(|member| Some((*member, recipients.get(*member)?)));
        for (place, recipient) in members {
            let address = recipient.address.as_str();
            let mut done = match served.iter().find(|(other, _)| *other == address) {
                Some((_, done)) => done.clone(),
                None => self.serve_one(&mut filing, recipient, mail.of(place)).await,
            };
            if let Served::Rejected(refusal) = &mut done {
                refusal.cut(&mut reasons_left);
                refusal.cut(&mut all_reasons_left.lock());
            }
            served.push((address, done));
        }
        served.into_iter().map(|(_, done)| done).collect()
    }

    async fn serve_one(&self, filing: &mut Filing<'_>, recipient: &Recipient, mail: Mail<'_>) -> Served {
        if let Err(error) = mail.chain.check_lease() {
            return Served::Failed(error);
        }
        let Some(forward) = &recipient.account.forward else {
            return self.run_scripts(filing, recipient, mail).await;
        };
        let account = recipient.account.name.as_str();
        if !forward.keep {
            match self.forward(recipient, forward, mail).await {
                Ok(()) if forward.to.len() > 1 => return Served::Kept(Success::Expanded),
                Ok(()) => return Served::Kept(Success::SentOn),
                Err(error) => {
                    tracing::warn!(
                        account,
                        error = error.to_string(),
                        "mail is not forwarded: the account keeps it"
                    );
                }
            }
            return self.run_scripts(filing, recipient, mail).await;
        }
        // The copy first. If the delivery fails for now, the sender tries it again, and nothing was
        // sent twice.
        let done = self.run_scripts(filing, recipient, mail).await;
        if matches!(done, Served::Kept(_))
            && let Err(error) = self.forward(recipient, forward, mail).await
        {
            tracing::warn!(
                account,
                error = error.to_string(),
                "mail is not forwarded: the account has its copy"
            );
        }
        done
    }

    /// By the scripts, or to INBOX.
    async fn run_scripts(&self, filing: &mut Filing<'_>, recipient: &Recipient, mail: Mail<'_>) -> Served {
        let active = recipient.account.scripts.active.as_deref();
        let has_site = self.has_site();
        if active.is_none() && !has_site {
            return filing.keep_as_it_came().await.into();
        }
        let account = recipient.account.name.as_str();
        let Some(permit) = self.run_permit(recipient, mail.served.len()).await else {
            tracing::warn!(account, script = active, "too many Sieve scripts run: the message is deferred");
            return Served::Failed(DeliveryError::Busy);
        };
        let mut outcome = self.run(recipient, active, &filing.list, (mail, &permit)).await;
        if let Err(NoOutcome::Later(error)) = outcome {
            tracing::warn!(account, script = active, %error, "a Sieve script cannot be read now: the message is deferred");
            return Served::Failed(error);
        }
        if let Err(error) = &outcome
            && active.is_some()
            && has_site
        {
            tracing::warn!(
                account,
                script = active,
                error = error.to_string(),
                "a Sieve script failed: only the scripts of the administrator run"
            );
            outcome = self.run(recipient, None, &filing.list, (mail, &permit)).await;
        }
        // Mail that the script sends may run the script of the same account.
        drop(permit);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(
                    account,
                    script = active,
                    error = error.to_string(),
                    "a Sieve script failed: the message is kept"
                );
                return filing.keep_as_it_came().await.into();
            }
        };
        self.carry_out(filing, recipient, outcome, mail).await
    }

    /// A permit to run a script over this many bytes; `None` after a timeout.
    pub(crate) async fn run_permit(&self, recipient: &Recipient, len: usize) -> Option<Arc<RunPermit>> {
        self.account_permit(recipient.account.id, len).await
    }

    /// A permit to run a script of this account, which may have to be compiled.
    pub(crate) async fn account_permit(&self, account: AccountId, len: usize) -> Option<Arc<RunPermit>> {
        self.runs.permit(self.delivery.summaries(), account, len).await
    }

    /// Runs the script of a recipient between those of the administrator, or these alone; why not,
    /// if it cannot be run.
    async fn run(
        &self,
        recipient: &Recipient,
        active: Option<&str>,
        list: &Arc<MailboxList>,
        (mail, permit): (Mail<'_>, &Arc<RunPermit>),
    ) -> Result<Outcome, NoOutcome> {
        let scripts = match active {
            Some(active) => {
                let wanted = Wanted { account: &recipient.account, active, site: self.site.as_ref() };
                self.cache.of(self.delivery.directory(), wanted, permit).await?
            }
            None => Arc::new(Scripts::none()),
        };
        let script = match (&self.site, active) {
            (Some(site), Some(_)) if site.runs => {
                // The script reports this of itself, and not of the one that includes it.
                scripts.active.clone().map_err(NoOutcome::Broken)?;
                Arc::clone(&site.with_own)
            }
            (Some(site), None) => Arc::clone(&site.alone),
            _ => scripts.active.clone().map_err(NoOutcome::Broken)?,
        };
        let world = self.world(recipient, scripts, list, mail);
        let outcome = run_script((script, world), mail.served.clone(), Arc::clone(permit)).await;
        outcome.map_err(NoOutcome::Broken)
    }

    /// The context of a run for a recipient.
    pub(crate) fn world(
        &self,
        recipient: &Recipient,
        scripts: Arc<Scripts>,
        list: &Arc<MailboxList>,
        mail: Mail<'_>,
    ) -> World {
        World {
            from: mail.from.to_owned(),
            to: recipient.address.as_str().to_owned(),
            own: own_addresses(recipient),
            now: self.now(),
            host: Arc::clone(&self.host),
            list: Arc::clone(list),
            scripts,
            site: self.site.clone(),
            happened: None,
            remote_ip: mail.client.ip.map(|ip| ip.to_string()),
            remote_host: mail.client.host.map(str::to_owned),
            directory: Arc::clone(self.delivery.directory()),
            annotations: Mutex::default(),
            engine: Arc::clone(self.delivery.store().engine()),
            runtime: Handle::current(),
            known: OnceLock::new(),
            stop: Arc::default(),
        }
    }

    /// Unix seconds.
    pub(crate) fn now(&self) -> u64 {
        self.delivery.store().unix_ms() / 1000
    }
}

/// The accounts of the recipients, each once, in the order of their first ones.
fn by_account(recipients: &[Recipient]) -> Vec<Group<'_>> {
    let mut places = HashMap::with_capacity(recipients.len());
    let mut groups: Vec<Group<'_>> = Vec::with_capacity(recipients.len());
    for (member, recipient) in recipients.iter().enumerate() {
        let place = *places.entry(recipient.account.id).or_insert_with(|| {
            groups.push(Group { account: &recipient.account, members: Vec::new() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            group.members.push(member);
        }
    }
    groups
}

/// Does work in its order, some of it at a time. One takes some KiB also before it runs, and a
/// group has up to ten thousand accounts.
///
/// `StreamExt::buffered` does the same, but the compiler cannot prove that it is `Send` here: work
/// borrows what the closure that makes it borrows.
async fn some_at_once<W: Future>(work: impl Iterator<Item = W>) -> Vec<W::Output> {
    let (mut done, mut running) = (Vec::new(), FuturesOrdered::new());
    for one in work {
        running.push_back(one);
        if running.len() == PARALLEL {
            done.extend(running.next().await);
        }
    }
    done.extend(running.collect::<Vec<_>>().await);
    done
}

/// The outcomes of all groups, in the order of the recipients.
fn in_order(count: usize, groups: &[Group<'_>], served: Vec<Vec<Served>>) -> Vec<Served> {
    let lost = || Served::Failed(DeliveryError::Interrupted("no answer for this recipient".into()));
    let mut outcomes: Vec<Served> = (0..count).map(|_| lost()).collect();
    for (group, served) in groups.iter().zip(served) {
        for (member, done) in group.members.iter().zip(served) {
            outcomes[*member] = done;
        }
    }
    outcomes
}
