//! The verification of one message.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hickory_resolver::TokioResolver;
use mail_auth::common::crypto::Algorithm;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{Alignment, Policy as DmarcPolicy};
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    AuthenticatedMessage, AuthenticationResults, DkimOutput, DkimResult, DmarcOutput, DmarcResult,
    MessageAuthenticator, SpfOutput, SpfResult,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Signatures of a message that are verified; the others are passed over. RFC 6376 §6.1 leaves the
/// number to the verifier.
const SIGNATURES_MAX: usize = 8;
/// Messages verified at a time; each may wait for DNS on a thread.
const PARALLEL: usize = 64;
/// Messages up to this size are verified where they are: hashing them takes under a millisecond.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// What a domain's policy leads to.
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
    /// What DMARC policies lead to.
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

/// What is to become of a message.
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
    /// What follows.
    pub action: Action,
    /// The domain of the author (`From`), if there is one.
    pub author: String,
    /// What a report about the author's domain says of the message; none if the domain has no
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
    places: Arc<Semaphore>,
}

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
            places: Arc::new(Semaphore::new(PARALLEL)),
        }
    }

    /// The name under which results are written.
    pub fn host(&self) -> &str {
        &self.options.host
    }

    /// Verifies a message as it was received, without the fields that this server puts in front.
    pub async fn verify(&self, client: &Client, message: &Bytes) -> Verdict {
        // Never closed.
        let _place = Arc::clone(&self.places).acquire_owned().await;
        if message.len() <= INLINE_BYTES_MAX {
            return self.verify_here(client, message).await;
        }
        let (this, client, message) = (self.clone(), client.clone(), message.clone());
        let runtime = Handle::current();
        let work = move || runtime.block_on(this.verify_here(&client, &message));
        match tokio::task::spawn_blocking(work).await {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::error!(%error, "a message was not verified: this is a bug, please report it");
                self.unverified("auth=temperror (internal error)")
            }
        }
    }

    /// A verdict without results (RFC 8601 §2.2, `no-result`, or a method that failed).
    fn unverified(&self, why: &str) -> Verdict {
        let field = format!("Authentication-Results: {}; {why}\r\n", self.options.host);
        Verdict { field, action: Action::Deliver, author: String::new(), observed: None }
    }

    async fn verify_here(&self, client: &Client, message: &[u8]) -> Verdict {
        let Some(mut parsed) = AuthenticatedMessage::parse(message) else { return self.unverified("none") };
        // RFC 8301 §3.1: SHA-1 proves nothing.
        parsed.dkim_headers.retain(|signature| signature.header.a != Algorithm::RsaSha1);
        parsed.dkim_headers.truncate(SIGNATURES_MAX);
        let all = self.all_methods(client, &parsed);
        match tokio::time::timeout(self.options.within, all).await {
            Ok(verdict) => verdict,
            Err(_) => {
                tracing::warn!(client = %client.address, within = ?self.options.within, "look-ups for a message took too long");
                self.unverified("dmarc=temperror (look-ups took too long)")
            }
        }
    }

    async fn all_methods<'m>(&self, client: &Client, message: &'m AuthenticatedMessage<'m>) -> Verdict {
        let (host, dns) = (self.options.host.as_str(), &self.authenticator);
        let Client { address, helo, from } = client;
        let sender = (!from.is_empty()).then_some(from.as_str());
        // RFC 7208 §2.4: with the null path the host's name stands for the sender.
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
        let unsigned = if dkim.is_empty() { ";\r\n\tdkim=none" } else { "" };
        let dmarc_result = dmarc_result(&dmarc);
        let field = format!("Authentication-Results: {results}{unsigned}{dmarc_result}\r\n");
        let action = match self.options.policy {
            Policy::Honour if !is_author_clear(&message.from) => Action::Quarantine,
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
        domain if !domain.is_empty() && domain.chars().all(is_plain) => format!(" header.from={domain}"),
        _ => String::new(),
    };
    format!(";\r\n\tdmarc={result}{author}{policy}")
}

/// Whether DMARC can judge the author: all addresses of From have one domain, and DNS can hold it.
/// RFC 7489 §6.6.1 leaves other messages to the receiver. A forger may write a domain with a policy
/// so that no policy is found, and mail programs still show it: such mail is filed as junk.
fn is_author_clear(authors: &[String]) -> bool {
    let mut domains = authors.iter().map(|author| author.rsplit_once('@').map_or("", |(_, domain)| domain));
    // Without From there is no author to forge.
    let Some(first) = domains.next() else { return true };
    is_domain(first) && domains.all(|domain| domain.eq_ignore_ascii_case(first))
}

/// RFC 1035 §2.3.4, with the letters of other scripts (RFC 6531 §3.3).
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.len() <= 253 && text.split('.').all(is_label)
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
mod tests {
    use super::*;

    fn clear(authors: &[&str]) -> bool {
        is_author_clear(&authors.iter().map(|author| (*author).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_author_has_one_domain_that_dns_can_hold() {
        assert!(clear(&[]) && clear(&["ana@example.org"]) && clear(&["ana@b\u{fc}cher.example"]));
        assert!(clear(&["ana@example.org", "bo@EXAMPLE.org"]));
        let long = format!("ceo@{}.victim.test", "a".repeat(64));
        for author in
            ["ceo@victim.test.", "ceo@.victim.test", "ceo@victim..test", "ceo@mail\u{202e}.victim.test"]
                .into_iter()
                .chain(["ceo@[victim.test]", "ceo@\"victim.test\"", "ceo@", "ceo", long.as_str()])
        {
            assert!(!clear(&[author]), "{author}");
        }
        assert!(!clear(&["ceo@victim.test", "x@evil.test"]));
        assert!(!clear(&["ceo@victim.test", "x@"]));
    }
}
