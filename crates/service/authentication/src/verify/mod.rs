//! The verification of one message.

mod client_name;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::join_all;
use hickory_resolver::TokioResolver;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{Alignment, Policy as DmarcPolicy};
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    ArcOutput, AuthenticatedMessage, AuthenticationResults, DkimOutput, DkimResult, DmarcOutput, DmarcResult,
    IprevOutput, MessageAuthenticator, SpfOutput, SpfResult,
};
use posthaste_mime_summary::bounded_header_len;
use posthaste_net::on_compute_thread_with;
use tokio::time::timeout;

use self::client_name::verified_name;
use crate::bounds::{DOMAIN_LEN_MAX, FIELD_LEN_MAX, LeftOut, bound, bound_authors, has_key_name};
use crate::header::reading_header;
use crate::memory::{ReservedMemory, verification_bytes};
use crate::results::with_results;
use crate::shown::{is_all_shown, shown_domains};
use crate::threads::Verifications;

/// How long a message waits for a place, and then for memory, before it is deferred. Senders wait
/// ten minutes for an answer to their data (RFC 5321 §4.5.3.2.6).
const THREAD_WITHIN: Duration = Duration::from_secs(60);

/// The result of a method whose look-ups took too long.
const LATE: &str = "temperror (look-ups took too long)";

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
    /// The message is deferred: look-ups took too long, and the policy of the author's domain is
    /// to refuse unproven mail, or to file it as junk.
    Defer,
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
    /// The client's name in DNS, if it leads back to its address (RFC 8601 §2.7.3, iprev).
    pub client_name: Option<String>,
    /// Whether SPF passes for the domain of the reverse path, or DKIM for that domain or one
    /// above it. False for the null path.
    pub is_sender_proven: bool,
    /// The row of the message in a report about the author's domain. `None` if the domain has no
    /// policy or requests no report, or if a necessary look-up failed.
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
    verifications: Verifications,
    /// See [`THREAD_WITHIN`].
    thread_within: Duration,
}

/// A message that was verified.
#[derive(Debug)]
pub struct Verified {
    /// With the field that has the results, after the trace fields of its front.
    pub message: Bytes,
    /// The outcome.
    pub verdict: Verdict,
    /// The reserved memory of the copy. Hold it as long as the message as it came. `None` after an
    /// internal error.
    pub memory: Option<ReservedMemory>,
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
            verifications: Verifications::new(),
            thread_within: THREAD_WITHIN,
        }
    }

    /// Takes threads and memory from these, which verifiers that follow each other share.
    #[must_use]
    pub fn with_verifications(self, verifications: Verifications) -> Self {
        Self { verifications, ..self }
    }

    /// The name under which results are written.
    pub fn host(&self) -> &str {
        &self.options.host
    }

    /// Verifies a message. Its first `trace_len` octets are fields that this server put in front,
    /// which nobody signed.
    #[boxed]
    pub async fn verify(&self, client: &Client, message: &Bytes, trace_len: usize) -> Result<Verified, Busy> {
        let permit = self.verifications.thread(client.address, self.thread_within).await.ok_or(Busy)?;
        let received = message.slice(trace_len.min(message.len())..);
        let header_len = reading_header(None, &received, |received| bounded_header_len(&received)).await;
        let wanted = verification_bytes(message.len(), header_len.unwrap_or(0));
        let memory = self.verifications.memory.reserve(client.address, wanted, self.thread_within);
        let memory = memory.await.ok_or(Busy)?;
        let (this, client, whole) = (self.clone(), client.clone(), message.clone());
        // The work holds permit and memory, not the task that waits for it: it continues if a
        // session ends.
        let work = move || {
            let verdict = match header_len {
                Some(_) => this.verifications.block_on(this.verify_here(&client, &received)),
                None => this.unbounded(),
            };
            let marked = this.verifications.compute(|| with_results(&whole, &verdict.field, this.host()));
            // Scanners may take long. Meanwhile there is the copy, and no parsed header.
            memory.shrink_to(marked.len());
            Verified { message: marked, verdict, memory: Some(memory) }
        };
        match on_compute_thread_with(permit, work).await {
            Ok(verified) => Ok(verified),
            Err(error) => {
                tracing::error!(%error, "a message was not verified: this is a bug, please report it");
                let verdict = self.unverified("auth=temperror (internal error)");
                let message = with_results(message, &verdict.field, self.host());
                Ok(Verified { message, verdict, memory: None })
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
        let (author, client_name) = (String::new(), None);
        let (action, is_sender_proven) = (Action::Deliver, false);
        Verdict { field, action, author, client_name, is_sender_proven, observed: None }
    }

    pub(crate) async fn verify_here(&self, client: &Client, message: &[u8]) -> Verdict {
        // Before the message is parsed: both together would take more memory.
        let shown = shown_domains(message);
        let Some(mut parsed) = AuthenticatedMessage::parse(message) else { return self.unverified("none") };
        let left_out = bound(&mut parsed);
        let is_clear = bound_authors(&mut parsed.from) && is_all_shown(&shown, parsed.from.first());
        let message = Parsed { signed: signatures_apart(&mut parsed), whole: parsed };
        self.all_methods(client, &message, (left_out, is_clear)).await
    }

    async fn all_methods<'m>(
        &self,
        client: &Client,
        message: &'m Parsed<'m>,
        (left_out, is_clear): (LeftOut, bool),
    ) -> Verdict {
        let (host, address) = (self.options.host.as_str(), client.address);
        let found = self.look_up(client, message).await;
        let LookupResults { iprev, spf, dkim, is_dkim_late, arc, dmarc, question } = &found;
        let message = &message.whole;
        let mut results = AuthenticationResults::new(host);
        if let Some(iprev) = iprev {
            results = results.with_iprev_result(iprev, address);
        }
        let results = match client.from.as_str() {
            "" => results.with_spf_ehlo_result(spf, address, &client.helo),
            sender => results.with_spf_mailfrom_result(spf, address, sender, &client.helo),
        };
        let mut results = results.with_dkim_results(dkim, message.from());
        if let Some(arc) = arc.as_ref().filter(|_| !message.as_headers.is_empty()) {
            results = results.with_arc_result(arc, address);
        }
        let unsigned = match is_dkim_late {
            // RFC 8601 §2.7.1
            false if dkim.is_empty() && !left_out.signatures => ";\r\n\tdkim=none",
            false => "",
            true => &format!(";\r\n\tdkim={LATE}"),
        };
        let (left_out, dmarc_result) = (left_out.results(), dmarc_result(dmarc, *question));
        let mut field = format!("Authentication-Results: {results}{unsigned}{left_out}{dmarc_result}\r\n");
        if field.len() > FIELD_LEN_MAX {
            field = format!("Authentication-Results: {host}{dmarc_result}\r\n");
        }
        let action = match (self.options.policy, action_of(dmarc, *question)) {
            // Mail programs may show others beside the author that was judged.
            (Policy::Honour, Action::Deliver) if !is_clear => Action::Quarantine,
            (Policy::Honour, action) => action,
            (Policy::Report, _) => Action::Deliver,
        };
        let observed = match question {
            Question::Closed => observed(dmarc, (mail_from_domain(client), spf), dkim),
            Question::Open | Question::Late => None,
        };
        let client_name = match iprev {
            Some(iprev) => verified_name(&self.authenticator, iprev, address, self.options.within / 4).await,
            None => None,
        };
        let (author, is_sender_proven) = (dmarc.domain().to_owned(), proves_sender(client, spf, dkim));
        Verdict { field, action, author, client_name, is_sender_proven, observed }
    }

    /// The look-ups of all methods. Most of the time is for those that names of the sender's
    /// choice may draw out. The policy of the author is looked up at the same time, so that
    /// nobody else can keep it from being found.
    async fn look_up<'m>(&self, client: &Client, message: &'m Parsed<'m>) -> LookupResults<'m> {
        let Parsed { whole: message, signed } = message;
        let (host, dns) = (self.options.host.as_str(), &self.authenticator);
        let Client { address, helo, from } = client;
        let domain = mail_from_domain(client);
        let no_spf = SpfOutput::new(domain.to_owned());
        let spf = async {
            match from.as_str() {
                // RFC 7208 §2.4: with the null path, the host's name is used as the sender.
                "" => dns.verify_spf(SpfParameters::verify_ehlo(*address, helo, host)).await,
                sender => dns.verify_spf(SpfParameters::verify_mail_from(*address, helo, host, sender)).await,
            }
        };
        let within = self.options.within / 4 * 3;
        // Each signature by itself: names of others do not keep the author's from being verified.
        let signatures = signed.iter().map(|one| timeout(within, dns.verify_dkim(one)));
        let (iprev, spf, signatures, arc, policy) = tokio::join!(
            timeout(within, dns.verify_iprev(*address)),
            timeout(within, spf),
            join_all(signatures),
            timeout(within, dns.verify_arc(message)),
            timeout(within, dns.verify_dmarc(DmarcParameters::new(message, &[], domain, &no_spf))),
        );
        let is_dkim_late = signatures.iter().any(Result::is_err);
        let dkim: Vec<_> = signatures.into_iter().filter_map(Result::ok).flatten().collect();
        let is_in_time = spf.is_ok() && !is_dkim_late;
        let spf = spf.unwrap_or_else(|_| no_spf.with_result(SpfResult::TempError));
        let judged = async {
            let dmarc = dns.verify_dmarc(DmarcParameters::new(message, &dkim, domain, &spf)).await;
            let is_open = !passes(&dmarc) && self.is_open(message, (domain, &spf), &dkim).await;
            (dmarc, is_open)
        };
        let (dmarc, question) = match timeout(self.options.within - within, judged).await {
            Ok((dmarc, _)) if !is_in_time => (dmarc, Question::Late),
            Ok((dmarc, true)) => (dmarc, Question::Open),
            Ok((dmarc, false)) => (dmarc, Question::Closed),
            Err(_) => (policy.unwrap_or_default(), Question::Late),
        };
        if question == Question::Late {
            tracing::warn!(client = %address, within = ?self.options.within, "look-ups for a message took too long");
        }
        LookupResults { iprev: iprev.ok(), spf, dkim, is_dkim_late, arc: arc.ok(), dmarc, question }
    }

    /// Whether DMARC would pass if the methods passed that failed for now. A sender can have any
    /// domain of its own fail so; only one that aligns with the author's leaves the question open.
    async fn is_open<'m>(
        &self,
        message: &'m AuthenticatedMessage<'m>,
        (domain, spf): (&str, &SpfOutput),
        dkim: &[DkimOutput<'m>],
    ) -> bool {
        let failed = dkim.iter().filter(|output| matches!(output.result(), DkimResult::TempError(_)));
        // A name that DNS cannot hold fails in the same way, and for ever.
        let failed = failed.filter_map(DkimOutput::signature).filter(|signature| has_key_name(signature));
        let dkim: Vec<_> = failed.map(|signature| DkimOutput::pass().with_signature(signature)).collect();
        let hoped = match spf.result() {
            SpfResult::TempError => SpfResult::Pass,
            _ if dkim.is_empty() => return false,
            _ => SpfResult::None,
        };
        let spf = SpfOutput::new(domain.to_owned()).with_result(hoped);
        let hoped = DmarcParameters::new(message, &dkim, domain, &spf);
        passes(&self.authenticator.verify_dmarc(hoped).await)
    }
}

/// A message whose signatures are verified concurrently.
struct Parsed<'m> {
    /// The message without its signatures.
    whole: AuthenticatedMessage<'m>,
    /// First one with the faults of signatures that cannot be read, then one with each other
    /// signature.
    signed: Vec<AuthenticatedMessage<'m>>,
}

/// Takes the signatures out of a message: one message with each of them.
fn signatures_apart<'m>(message: &mut AuthenticatedMessage<'m>) -> Vec<AuthenticatedMessage<'m>> {
    let errors = AuthenticatedMessage { errors: message.errors.clone(), ..AuthenticatedMessage::default() };
    let signatures = std::mem::take(&mut message.dkim_headers);
    let each = signatures.into_iter().map(|signature| AuthenticatedMessage {
        headers: message.headers.clone(),
        from: message.from.clone(),
        raw_message: message.raw_message,
        body_offset: message.body_offset,
        body_hashes: message.body_hashes.clone(),
        dkim_headers: vec![signature],
        ..AuthenticatedMessage::default()
    });
    std::iter::once(errors).chain(each).collect()
}

/// The results of the look-ups for a message. `None` is a method that took too long.
struct LookupResults<'m> {
    iprev: Option<IprevOutput>,
    spf: SpfOutput,
    /// The results of the signatures whose look-ups ended in time.
    dkim: Vec<DkimOutput<'m>>,
    is_dkim_late: bool,
    arc: Option<ArcOutput<'m>>,
    dmarc: DmarcOutput,
    question: Question,
}

/// Whether it is known that no method passes for the author's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// It is known whether one does.
    Closed,
    /// One failed for now that may pass later.
    Open,
    /// Look-ups took too long.
    Late,
}

/// The domain that SPF looks up: of the reverse path, or the host's name.
fn mail_from_domain(client: &Client) -> &str {
    client.from.rsplit_once('@').map_or(client.helo.as_str(), |(_, domain)| domain)
}

/// Whether a method passes for the domain of the reverse path.
fn proves_sender(client: &Client, spf: &SpfOutput, dkim: &[DkimOutput<'_>]) -> bool {
    let Some((_, domain)) = client.from.rsplit_once('@') else { return false };
    // RFC 6376 §3.5: the domain of `d=` is responsible, also for names below it (`i=`).
    let covers = |signer: &str| {
        let at = domain.len().checked_sub(signer.len()).filter(|_| !signer.is_empty());
        let parts = at.and_then(|at| domain.split_at_checked(at));
        parts.is_some_and(|(below, end)| {
            end.eq_ignore_ascii_case(signer) && (below.is_empty() || below.ends_with('.'))
        })
    };
    let passing = dkim.iter().filter(|output| matches!(output.result(), DkimResult::Pass));
    matches!(spf.result(), SpfResult::Pass)
        || passing.filter_map(DkimOutput::signature).any(|signature| covers(&signature.d))
}

fn passes(dmarc: &DmarcOutput) -> bool {
    [dmarc.spf_result(), dmarc.dkim_result()].iter().any(|result| matches!(result, DmarcResult::Pass))
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
fn dmarc_result(dmarc: &DmarcOutput, question: Question) -> String {
    let outcomes = [dmarc.spf_result(), dmarc.dkim_result()];
    let any = |is: fn(&DmarcResult) -> bool| outcomes.iter().any(|outcome| is(outcome));
    let result = if passes(dmarc) {
        "pass"
    } else if question == Question::Late {
        LATE
    } else if question == Question::Open || any(|outcome| matches!(outcome, DmarcResult::TempError(_))) {
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
/// error of the policy or of an aligned domain leaves the question open, so the message is
/// delivered.
fn action_of(dmarc: &DmarcOutput, question: Question) -> Action {
    let outcomes = [dmarc.spf_result(), dmarc.dkim_result()];
    let is_unknown = outcomes.iter().any(|outcome| matches!(outcome, DmarcResult::TempError(_)));
    if passes(dmarc) || is_unknown || question == Question::Open {
        return Action::Deliver;
    }
    match (dmarc.policy(), question) {
        (DmarcPolicy::None | DmarcPolicy::Unspecified, _) => Action::Deliver,
        (DmarcPolicy::Reject | DmarcPolicy::Quarantine, Question::Late) => Action::Defer,
        (DmarcPolicy::Reject, _) => Action::Reject,
        (DmarcPolicy::Quarantine, _) => Action::Quarantine,
    }
}

#[cfg(test)]
mod tests;
