//! Results of TLS with other hosts, by their domains (RFC 8460).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::tally::{TALLY_LEN_MAX, Tally, escaped_len};

/// Policies of one domain in one period: a change makes a second one, and more are unusual.
const POLICIES_MAX: usize = 8;
/// Kinds of failure that a report details for one policy; more are counted in its sum alone.
const FAILURES_MAX: usize = 100;

/// The policy of a connection (RFC 8460 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// DANE.
    Tlsa,
    /// MTA-STS.
    Sts,
    /// Nothing.
    NoPolicyFound,
}

/// A policy as a report quotes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedPolicy {
    /// Which kind.
    pub kind: PolicyKind,
    /// The lines or records of the policy.
    pub strings: Vec<String>,
    /// Patterns or names of the hosts it is about.
    pub hosts: Vec<String>,
}

/// Why TLS failed (RFC 8460 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsFault {
    /// The host does not offer STARTTLS.
    StarttlsNotSupported,
    /// Its certificate is for other names, or the policy does not name the host.
    CertificateHostMismatch,
    /// The host's certificate has expired.
    CertificateExpired,
    /// No authority that we trust signed its certificate.
    CertificateNotTrusted,
    /// Any other failure of the handshake.
    ValidationFailure,
    /// No record of DANE fits the certificate.
    TlsaInvalid,
    /// DNSSEC cannot be verified.
    DnssecInvalid,
    /// The policy cannot be fetched.
    StsPolicyFetchError,
    /// The fetched text is no policy.
    StsPolicyInvalid,
    /// The certificate of the policy's host is not valid.
    StsWebpkiInvalid,
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFailure {
    /// The reason.
    pub fault: TlsFault,
    /// The host; empty if no host was chosen yet.
    pub host: String,
    /// Its address, if one was connected to.
    pub address: Option<IpAddr>,
    /// For a person, where the fault alone says little (RFC 8460 §4.3.3), and else empty. Words of
    /// our own: an error of the system or of a library would reveal something of this machine.
    pub reason: &'static str,
}

/// The counts of one domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TlsTally {
    policies: Vec<PolicyTally>,
    /// Octets of policies and details.
    #[serde(skip)]
    len: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PolicyTally {
    policy: AppliedPolicy,
    successes: u64,
    failures: u64,
    details: Vec<Detail>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Detail {
    fault: TlsFault,
    host: String,
    address: Option<IpAddr>,
    reason: String,
    count: u64,
}

impl TlsTally {
    /// Counts a connection that met its policy.
    pub fn success(&mut self, policy: &AppliedPolicy) {
        self.count(policy, (1, 0), Vec::new());
    }

    /// Counts a failure.
    pub fn failure(&mut self, policy: &AppliedPolicy, failure: TlsFailure) {
        let TlsFailure { fault, host, address, reason } = failure;
        let detail = Detail { fault, host, address, reason: reason.to_owned(), count: 1 };
        self.count(policy, (0, 1), vec![detail]);
    }

    /// Counts successes and failures, as far as there is room.
    fn count(&mut self, policy: &AppliedPolicy, (successes, failures): (u64, u64), details: Vec<Detail>) {
        let mut at = self.policies.iter().position(|tally| tally.policy == *policy);
        let fits = self.policies.len() < POLICIES_MAX && self.len + policy.len() <= TALLY_LEN_MAX;
        if at.is_none() && fits {
            at = Some(self.policies.len());
            self.len += policy.len();
            let policy = policy.clone();
            self.policies.push(PolicyTally { policy, successes: 0, failures: 0, details: Vec::new() });
        }
        let Some(tally) = at.and_then(|at| self.policies.get_mut(at)) else { return };
        tally.successes += successes;
        tally.failures += failures;
        for detail in details {
            self.len += tally.detail(detail, TALLY_LEN_MAX.saturating_sub(self.len));
        }
    }

    /// The report (RFC 8460 §4.4).
    pub fn report(&self, about: &TlsReport) -> serde_json::Value {
        let policies: Vec<_> = self.policies.iter().map(|tally| tally.report(&about.domain)).collect();
        serde_json::json!({
            "organization-name": about.organization,
            "date-range": { "start-datetime": rfc3339(about.start), "end-datetime": rfc3339(about.end - 1) },
            "contact-info": about.contact,
            "report-id": about.id,
            "policies": policies,
        })
    }
}

/// The source of a report, and its period.
pub(crate) struct TlsReport {
    pub organization: String,
    pub contact: String,
    pub domain: String,
    pub id: String,
    pub start: i64,
    pub end: i64,
}

impl PolicyTally {
    /// Counts a detail within some octets. Returns how many it took.
    fn detail(&mut self, detail: Detail, room: usize) -> usize {
        let is_same = |old: &Detail| {
            old.fault == detail.fault && old.host == detail.host && old.address == detail.address
        };
        if let Some(at) = self.details.iter().position(is_same) {
            if let Some(old) = self.details.get_mut(at) {
                old.count += detail.count;
            }
        } else if self.details.len() < FAILURES_MAX && detail.len() <= room {
            let len = detail.len();
            self.details.push(detail);
            return len;
        }
        0
    }

    fn report(&self, domain: &str) -> serde_json::Value {
        let mut policy = serde_json::json!({ "policy-type": self.policy.kind, "policy-domain": domain });
        if self.policy.kind != PolicyKind::NoPolicyFound
            && let Some(policy) = policy.as_object_mut()
        {
            policy.insert("policy-string".into(), self.policy.strings.clone().into());
            policy.insert("mx-host".into(), self.policy.hosts.clone().into());
        }
        let mut report = serde_json::json!({
            "policy": policy,
            "summary": {
                "total-successful-session-count": self.successes,
                "total-failure-session-count": self.failures,
            },
        });
        if !self.details.is_empty()
            && let Some(report) = report.as_object_mut()
        {
            report.insert("failure-details".into(), self.details.iter().map(Detail::report).collect());
        }
        report
    }
}

impl AppliedPolicy {
    fn len(&self) -> usize {
        let texts = self.strings.iter().chain(&self.hosts);
        size_of::<PolicyTally>() + texts.map(|text| size_of::<String>() + escaped_len(text)).sum::<usize>()
    }
}

impl Detail {
    fn len(&self) -> usize {
        size_of::<Self>() + escaped_len(&self.host) + self.reason.len()
    }

    fn report(&self) -> serde_json::Value {
        let mut detail = serde_json::Map::new();
        detail.insert("result-type".into(), serde_json::json!(self.fault));
        if !self.host.is_empty() {
            detail.insert("receiving-mx-hostname".into(), self.host.clone().into());
        }
        if let Some(address) = self.address {
            detail.insert("receiving-ip".into(), address.to_string().into());
        }
        detail.insert("failed-session-count".into(), self.count.into());
        if !self.reason.is_empty() {
            detail.insert("failure-reason-code".into(), self.reason.clone().into());
        }
        detail.into()
    }
}

impl Tally for TlsTally {
    fn add(&mut self, other: Self) {
        // Counts that were read from a record are not counted yet.
        let details = self.policies.iter().flat_map(|tally| &tally.details).map(Detail::len);
        let policies = self.policies.iter().map(|tally| tally.policy.len());
        self.len = policies.chain(details).sum();
        for from in other.policies {
            self.count(&from.policy, (from.successes, from.failures), from.details);
        }
    }

    fn len(&self) -> usize {
        self.len + size_of::<Self>()
    }
}

/// RFC 3339, in UTC.
fn rfc3339(unix: i64) -> String {
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp(unix) else { return String::new() };
    let (date, time) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sts() -> AppliedPolicy {
        AppliedPolicy {
            kind: PolicyKind::Sts,
            strings: vec!["version: STSv1".into(), "mode: testing".into()],
            hosts: vec!["*.mail.company-y.example".into()],
        }
    }

    fn failure(fault: TlsFault) -> TlsFailure {
        let reason = if fault == TlsFault::ValidationFailure { "the handshake failed" } else { "" };
        TlsFailure { fault, host: "mx1.company-y.example".into(), address: None, reason }
    }

    /// The shape of the example in RFC 8460, appendix B.
    #[test]
    fn a_report_has_the_fields_of_the_rfc() {
        let mut tally = TlsTally::default();
        (0..3).for_each(|_| tally.success(&sts()));
        let mut other = TlsTally::default();
        other.failure(&sts(), failure(TlsFault::CertificateExpired));
        other.failure(&sts(), failure(TlsFault::CertificateExpired));
        other.failure(&sts(), failure(TlsFault::ValidationFailure));
        other.success(&AppliedPolicy { kind: PolicyKind::NoPolicyFound, strings: vec![], hosts: vec![] });
        tally.add(other);
        let report = tally.report(&TlsReport {
            organization: "Company-X".into(),
            contact: "sts-reporting@company-x.example".into(),
            domain: "company-y.example".into(),
            id: "5065427c-23d3".into(),
            start: 1_459_468_800,
            end: 1_459_555_200,
        });
        assert_eq!(report["date-range"]["start-datetime"], "2016-04-01T00:00:00Z");
        assert_eq!(report["date-range"]["end-datetime"], "2016-04-01T23:59:59Z");
        let of_sts = &report["policies"][0];
        assert_eq!(of_sts["policy"]["policy-type"], "sts");
        assert_eq!(of_sts["policy"]["policy-domain"], "company-y.example");
        assert_eq!(of_sts["policy"]["mx-host"][0], "*.mail.company-y.example");
        assert_eq!(of_sts["summary"]["total-successful-session-count"], 3);
        assert_eq!(of_sts["summary"]["total-failure-session-count"], 3);
        let detail = &of_sts["failure-details"][0];
        assert_eq!(detail["result-type"], "certificate-expired");
        assert_eq!(detail["failed-session-count"], 2);
        assert!(detail.get("failure-reason-code").is_none());
        assert_eq!(of_sts["failure-details"][1]["failure-reason-code"], "the handshake failed");
        assert_eq!(report["policies"][1]["policy"]["policy-type"], "no-policy-found");
        assert!(report["policies"][1].get("failure-details").is_none());
    }

    #[test]
    fn the_data_kept_for_a_domain_has_a_bound() {
        let mut tally = TlsTally::default();
        for n in 0..1_000_u32 {
            let policy = AppliedPolicy { strings: vec![n.to_string()], ..sts() };
            tally.success(&policy);
            let host = format!("mx{n}.test");
            tally.failure(
                &AppliedPolicy { strings: vec!["0".into()], ..sts() },
                TlsFailure { host, ..failure(TlsFault::ValidationFailure) },
            );
        }
        let len = |tally: &TlsTally| {
            let details = tally.policies.iter().flat_map(|tally| &tally.details).map(Detail::len);
            tally.policies.iter().map(|tally| tally.policy.len()).chain(details).sum::<usize>()
        };
        assert_eq!(tally.len, len(&tally));
        // A policy may have 64 kilobytes.
        let mut big = TlsTally::default();
        for n in 0..POLICIES_MAX {
            let policy = AppliedPolicy { strings: vec![n.to_string().repeat(60_000)], ..sts() };
            big.success(&policy);
            big.add(tally.clone());
        }
        assert_eq!(big.len, len(&big));
        assert!(big.len <= TALLY_LEN_MAX);
        assert_eq!(tally.policies.len(), POLICIES_MAX);
        assert_eq!((tally.policies[0].details.len(), tally.policies[0].failures), (FAILURES_MAX, 1_000));
    }
}
