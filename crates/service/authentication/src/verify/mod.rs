//! The verification of one message.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hickory_resolver::TokioResolver;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{Alignment, Policy as DmarcPolicy};
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    AuthenticatedMessage, AuthenticationResults, DkimOutput, DkimResult, DmarcOutput, DmarcResult,
    MessageAuthenticator, SpfOutput, SpfResult,
};
use posthaste_mime_summary::bounded_header_len;
use posthaste_net::{ByteBudget, BytePermit, Holder};
use tokio::runtime::Handle;

use crate::bounds::{DOMAIN_LEN_MAX, FIELD_LEN_MAX, LeftOut, bound, bound_authors};
use crate::places::Verifications;
use crate::results::with_results;

/// How long a message waits for a place, and then for memory, before its sender is asked to come
/// again. Senders wait ten minutes for an answer to their data (RFC 5321 §4.5.3.2.6).
const PLACE_WITHIN: Duration = Duration::from_secs(60);
/// Memory for messages under way by default: some of the largest.
const MEMORY_DEFAULT: usize = 256 << 20;
/// Bytes that the parsed header takes for each of its own, at most: addresses of two letters take
/// the most.
const HEADER_FACTOR: usize = 64;
/// Bytes that the rest of a verification takes: look-ups, keys, hashes.
const BESIDE: usize = 64 << 10;

/// The effect of a domain's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// `reject` is refused, `quarantine` goes to the junk folder.
    #[default]
    Honour,
    /// Both are written into the field alone.
    Report,
}

/// How messages are verified.
#[derive(Clone, Debug)]
pub struct VerifierOptions {
    /// The name of this server, under which results are written (RFC 8601 §2.5).
    pub host: String,
    /// The effect of DMARC policies.
    pub policy: Policy,
    /// Time for all look-ups of a message.
    pub within: Duration,
}

/// Where a message comes from.
#[derive(Clone, Debug)]
pub struct Client {
    /// The host's address.
    pub address: IpAddr,
    /// As it named itself in EHLO or HELO.
    pub helo: String,
    /// The reverse path without angle brackets; empty for the null path.
    pub from: String,
}

/// The action on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is delivered.
    Deliver,
    /// It goes to the junk folder: the author's domain says so.
    Quarantine,
    /// It is refused: the author's domain says so (RFC 7489 §6.3).
    Reject,
}

/// The outcome for a message.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The field `Authentication-Results`, with its CR LF.
    pub field: String,
    /// The action.
    pub action: Action,
    /// The domain of the author (`From`), if there is one.
    pub author: String,
    /// The row of the message in a report about the author's domain. None if the domain has no
    /// policy or wants no report, or if look-ups failed.
    pub observed: Option<Observed>,
}

/// How a message was judged, for the report of a day (RFC 7489 §7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `adkim`, `aspf`, `p` and `sp` of the policy.
    pub policy: [&'static str; 4],
    /// Whether DKIM passes for the author's domain.
    pub dkim_passes: bool,
    /// Whether SPF does.
    pub spf_passes: bool,
    /// The domain that SPF looked up, and its result.
    pub spf: (String, &'static str),
    /// Domain, selector and result of each signature.
    pub dkim: Vec<(String, String, &'static str)>,
}

/// Verifies messages. Cheap to clone.
#[derive(Clone)]
pub struct Verifier {
    authenticator: MessageAuthenticator,
    options: Arc<VerifierOptions>,
    places: Verifications,
    memory: ByteBudget,
    /// See [`PLACE_WITHIN`].
    place_within: Duration,
}

/// A message that was verified.
#[derive(Debug)]
pub struct Verified {
    /// With the field that has the results, behind the trace fields of its front.
    pub message: Bytes,
    /// The outcome.
    pub verdict: Verdict,
    /// Pays for the copy: to be held as long as the message as it came is.
    pub memory: BytePermit,
}

/// No place or no memory became free in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many messages are being verified")]
pub struct Busy;

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Asks this resolver.
    pub fn new(resolver: TokioResolver, options: VerifierOptions) -> Self {
        Self {
            authenticator: MessageAuthenticator(resolver),
            options: Arc::new(options),
            places: Verifications::new(),
            memory: ByteBudget::new(MEMORY_DEFAULT).with_share_of_at_least(usize::MAX),
            place_within: PLACE_WITHIN,
        }
    }

    /// Takes memory for messages under way from this budget, which others may share.
    #[must_use]
    pub fn with_memory(self, budget: ByteBudget) -> Self {
        Self { memory: budget.with_share_of_at_least(usize::MAX), ..self }
    }

    /// Takes places from these, which verifiers that follow each other share.
    #[must_use]
    pub fn with_places(self, places: Verifications) -> Self {
        Self { places, ..self }
    }

    /// The name under which results are written.
    pub fn host(&self) -> &str {
        &self.options.host
    }

    /// Verifies a message. Its first `trace_len` octets are fields that this server put in front,
    /// which nobody signed.
    pub async fn verify(&self, client: &Client, message: &Bytes, trace_len: usize) -> Result<Verified, Busy> {
        let place = self.places.place(client.address, self.place_within).await.ok_or(Busy)?;
        let received = message.slice(trace_len.min(message.len())..);
        let header_len = bounded_header_len(&received);
        let holder = Holder::Address(client.address);
        let memory = self.memory.begin(holder);
        let wanted = message.len() + header_len.unwrap_or(0) * HEADER_FACTOR + BESIDE;
        // A budget that is smaller than one message takes them one by one.
        let wanted = wanted.min(self.memory.largest());
        memory.grow_to_within(wanted, self.place_within).await.map_err(|_| Busy)?;
        memory.complete();
        let (this, client, whole) = (self.clone(), client.clone(), message.clone());
        let (runtime, session) = (Handle::current(), posthaste_metrics::current());
        // The work holds place and memory, not the task that waits for it: it continues if a
        // session ends.
        let work = move || {
            let _place = place;
            let verdict = match header_len {
                Some(_) => runtime.block_on(this.places.in_turns(this.verify_here(&client, &received))),
                None => this.unbounded(),
            };
            let marked = this.places.in_turn(|| with_results(&whole, &verdict.field, this.host()));
            Verified { message: marked, verdict, memory }
        };
        match tokio::task::spawn_blocking(move || session.run(work)).await {
            Ok(verified) => Ok(verified),
            Err(error) => {
                tracing::error!(%error, "a message was not verified: this is a bug, please report it");
                let verdict = self.unverified("auth=temperror (internal error)");
                let message = with_results(message, &verdict.field, self.host());
                Ok(Verified { message, verdict, memory: self.memory.begin(holder) })
            }
        }
    }

    /// A header over the bounds is not read. Listeners refuse such mail before.
    fn unbounded(&self) -> Verdict {
        let action = match self.options.policy {
            Policy::Honour => Action::Quarantine,
            Policy::Report => Action::Deliver,
        };
        Verdict { action, ..self.unverified("dkim=policy (the header is too large)") }
    }

    /// A verdict without results (RFC 8601 §2.2, `no-result`, or a method that failed).
    fn unverified(&self, why: &str) -> Verdict {
        let field = format!("Authentication-Results: {}; {why}\r\n", self.options.host);
        Verdict { field, action: Action::Deliver, author: String::new(), observed: None }
    }

    pub(crate) async fn verify_here(&self, client: &Client, message: &[u8]) -> Verdict {
        let Some(mut parsed) = AuthenticatedMessage::parse(message) else { return self.unverified("none") };
        let left_out = bound(&mut parsed);
        let is_clear = bound_authors(&mut parsed.from);
        let all = self.all_methods(client, &parsed, (left_out, is_clear));
        match tokio::time::timeout(self.options.within, all).await {
            Ok(verdict) => verdict,
            Err(_) => {
                tracing::warn!(client = %client.address, within = ?self.options.within, "look-ups for a message took too long");
                self.unverified("dmarc=temperror (look-ups took too long)")
            }
        }
    }

    async fn all_methods<'m>(
        &self,
        client: &Client,
        message: &'m AuthenticatedMessage<'m>,
        (left_out, is_clear): (LeftOut, bool),
    ) -> Verdict {
        let (host, dns) = (self.options.host.as_str(), &self.authenticator);
        let Client { address, helo, from } = client;
        let sender = (!from.is_empty()).then_some(from.as_str());
        // RFC 7208 §2.4: with the null path, the host's name is used as the sender.
        let spf = async {
            match sender {
                Some(sender) => {
                    dns.verify_spf(SpfParameters::verify_mail_from(*address, helo, host, sender)).await
                }
                None => dns.verify_spf(SpfParameters::verify_ehlo(*address, helo, host)).await,
            }
        };
        let (iprev, spf, dkim, arc) =
            tokio::join!(dns.verify_iprev(*address), spf, dns.verify_dkim(message), dns.verify_arc(message));
        let mail_from_domain = from.rsplit_once('@').map_or(helo.as_str(), |(_, domain)| domain);
        let dmarc = dns.verify_dmarc(DmarcParameters::new(message, &dkim, mail_from_domain, &spf)).await;
        let results = AuthenticationResults::new(host).with_iprev_result(&iprev, *address);
        let results = match sender {
            Some(sender) => results.with_spf_mailfrom_result(&spf, *address, sender, helo),
            None => results.with_spf_ehlo_result(&spf, *address, helo),
        };
        let mut results = results.with_dkim_results(&dkim, message.from());
        if !message.as_headers.is_empty() {
            results = results.with_arc_result(&arc, *address);
        }
        // RFC 8601 §2.7.1
        let unsigned = if dkim.is_empty() && !left_out.signatures { ";\r\n\tdkim=none" } else { "" };
        let (left_out, dmarc_result) = (left_out.results(), dmarc_result(&dmarc));
        let mut field = format!("Authentication-Results: {results}{unsigned}{left_out}{dmarc_result}\r\n");
        if field.len() > FIELD_LEN_MAX {
            field = format!("Authentication-Results: {host}{dmarc_result}\r\n");
        }
        let action = match self.options.policy {
            Policy::Honour if !is_clear => Action::Quarantine,
            Policy::Honour => action_of(&dmarc, &spf, &dkim),
            Policy::Report => Action::Deliver,
        };
        let observed = observed(&dmarc, (mail_from_domain, &spf), &dkim);
        Verdict { field, action, author: dmarc.domain().to_owned(), observed }
    }
}

fn observed(
    dmarc: &DmarcOutput,
    (sender, spf): (&str, &SpfOutput),
    dkim: &[DkimOutput<'_>],
) -> Option<Observed> {
    let record = dmarc.dmarc_record().filter(|record| !record.rua().is_empty())?;
    let is_open = [dmarc.spf_result(), dmarc.dkim_result()]
        .iter()
        .any(|outcome| matches!(outcome, DmarcResult::TempError(_)));
    let alignment = |strict| if strict { "s" } else { "r" };
    let policy = |policy| match policy {
        DmarcPolicy::Reject => "reject",
        DmarcPolicy::Quarantine => "quarantine",
        DmarcPolicy::None | DmarcPolicy::Unspecified => "none",
    };
    let signatures = dkim.iter().filter_map(|output| {
        let signature = output.signature()?;
        let result = match output.result() {
            DkimResult::Pass => "pass",
            DkimResult::Neutral(_) => "neutral",
            DkimResult::Fail(_) => "fail",
            DkimResult::PermError(_) => "permerror",
            DkimResult::TempError(_) => "temperror",
            DkimResult::None => "none",
        };
        Some((signature.d.clone(), signature.s.clone(), result))
    });
    let spf_result = match spf.result() {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    };
    (!is_open).then(|| Observed {
        policy: [
            alignment(record.adkim == Alignment::Strict),
            alignment(record.aspf == Alignment::Strict),
            policy(record.p),
            policy(if record.sp == DmarcPolicy::Unspecified { record.p } else { record.sp }),
        ],
        dkim_passes: matches!(dmarc.dkim_result(), DmarcResult::Pass),
        spf_passes: matches!(dmarc.spf_result(), DmarcResult::Pass),
        spf: (sender.to_ascii_lowercase(), spf_result),
        dkim: signatures.collect(),
    })
}

/// The DMARC part of the field (RFC 7489 §11.2): `fail` also where neither method has a result
/// with an aligned domain.
fn dmarc_result(dmarc: &DmarcOutput) -> String {
    let outcomes = [dmarc.spf_result(), dmarc.dkim_result()];
    let any = |is: fn(&DmarcResult) -> bool| outcomes.iter().any(|outcome| is(outcome));
    let result = if any(|outcome| matches!(outcome, DmarcResult::Pass)) {
        "pass"
    } else if any(|outcome| matches!(outcome, DmarcResult::TempError(_))) {
        "temperror"
    } else if any(|outcome| matches!(outcome, DmarcResult::PermError(_))) {
        "permerror"
    } else if dmarc.dmarc_record().is_some() {
        "fail"
    } else {
        "none"
    };
    let policy = match dmarc.policy() {
        DmarcPolicy::Reject => " policy.dmarc=reject",
        DmarcPolicy::Quarantine => " policy.dmarc=quarantine",
        DmarcPolicy::None => " policy.dmarc=none",
        DmarcPolicy::Unspecified => "",
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let author = match dmarc.domain() {
        domain if (1..=DOMAIN_LEN_MAX).contains(&domain.len()) && domain.chars().all(is_plain) => {
            format!(" header.from={domain}")
        }
        _ => String::new(),
    };
    format!(";\r\n\tdmarc={result}{author}{policy}")
}

/// RFC 7489 §6.6.2: the policy counts if neither method passes with an aligned domain. A temporary
/// error of either leaves the question open, so the message is delivered.
fn action_of(dmarc: &DmarcOutput, spf: &SpfOutput, dkim: &[DkimOutput<'_>]) -> Action {
    let outcomes = [dmarc.spf_result(), dmarc.dkim_result()];
    let passes = outcomes.iter().any(|outcome| matches!(outcome, DmarcResult::Pass));
    let is_open = outcomes.iter().any(|outcome| matches!(outcome, DmarcResult::TempError(_)))
        || spf.result() == SpfResult::TempError
        || dkim.iter().any(|signature| matches!(signature.result(), DkimResult::TempError(_)));
    if passes || is_open {
        return Action::Deliver;
    }
    match dmarc.policy() {
        DmarcPolicy::Reject => Action::Reject,
        DmarcPolicy::Quarantine => Action::Quarantine,
        DmarcPolicy::None | DmarcPolicy::Unspecified => Action::Deliver,
    }
}

#[cfg(test)]
mod tests;
