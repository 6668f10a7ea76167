//! The TLS that each host of a domain must have. The route, the domain's policy (DANE before
//! MTA-STS) or the sender requires it.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_queue::{Failure, TlsRequirement};
use posthaste_reporting::{AppliedPolicy, PolicyKind, TlsFailure, TlsFault, TlsReports};

use crate::client::Security;
use crate::dane::Dane;
use crate::dns::{Dns, Hosts};
use crate::route::{Route, TlsRule};
use crate::sts::{DomainPolicy, Fault, Mode, Policy, Sts};

const VERIFIED: Security = Security::Rule(TlsRule::Verified);
const OPPORTUNISTIC: Security = Security::Rule(TlsRule::Opportunistic);
const CLEAR: Security = Security::Rule(TlsRule::Never);

/// The plan for connecting to a host: its route, the attempts, and the policy.
#[derive(Debug)]
pub(crate) struct Plan {
    pub route: Route,
    /// The next one is tried only if TLS fails. The policy requires the first one.
    pub attempts: Vec<Security>,
    /// The policy for which the outcome of the first attempt is counted.
    pub policy: Option<AppliedPolicy>,
}

impl Plan {
    /// A host that the configuration names. Its rule applies, unless the sender requires more.
    pub fn named(route: &Route, requirement: TlsRequirement) -> Self {
        let attempts = match (route.tls, requirement) {
            (TlsRule::Opportunistic | TlsRule::Never, TlsRequirement::Required) => vec![VERIFIED],
            (TlsRule::Opportunistic, _) => vec![OPPORTUNISTIC, CLEAR],
            (rule, _) => vec![Security::Rule(rule)],
        };
        Self { route: route.clone(), attempts, policy: None }
    }
}

/// The policies for the hosts of one domain.
pub(crate) struct Plans<'a> {
    dns: &'a Dns,
    domain: &'a str,
    requirement: TlsRequirement,
    hosts_are_secure: bool,
    sts: Option<Policy>,
    reports: Option<&'a TlsReports>,
}

impl<'a> Plans<'a> {
    /// Reads the domain's policy, unless the sender has requested that none applies.
    #[boxed]
    pub async fn of(
        dns: &'a Dns,
        (domain, requirement): (&'a str, TlsRequirement),
        hosts: &Hosts,
        sts: Option<&Sts>,
        reports: Option<&'a TlsReports>,
    ) -> Self {
        // RFC 8689 §5: then no policy applies.
        let reports = reports.filter(|_| requirement != TlsRequirement::Optional);
        let found = match sts.filter(|_| requirement != TlsRequirement::Optional) {
            Some(sts) => sts.policy(dns, domain).await,
            None => DomainPolicy::default(),
        };
        let plans = Self {
            dns,
            domain,
            requirement,
            hosts_are_secure: hosts.are_secure,
            sts: found.policy.filter(|policy| policy.mode != Mode::None),
            reports,
        };
        if let Some(fault) = found.fault {
            plans.note_fault(fault);
        }
        plans
    }

    /// The ways of connecting to one host; an error if it must not be connected to.
    #[boxed]
    pub async fn host(&self, host: &str) -> Result<Plan, Failure> {
        let route =
            Route { host: host.to_owned(), port: self.dns.port, tls: TlsRule::Opportunistic, login: None };
        if self.requirement == TlsRequirement::Optional {
            return Ok(Plan { route, attempts: vec![OPPORTUNISTIC, CLEAR], policy: None });
        }
        let mut at_worst = vec![OPPORTUNISTIC, CLEAR];
        match self.dane(host).await? {
            // RFC 7672 §2.2: records without a usable one require TLS, and prove nothing. They
            // must not replace a policy that demands a certificate. REQUIRETLS is possible
            // nevertheless: it accepts a certificate of an authority, too (RFC 8689 §4.2.1).
            Some((Security::Encrypted, _))
                if self.sts.is_some() || self.requirement == TlsRequirement::Required =>
            {
                at_worst = vec![Security::Encrypted];
            }
            Some((security, policy)) => {
                return Ok(Plan { route, attempts: vec![security], policy: Some(policy) });
            }
            None => {}
        }
        let Some(policy) = &self.sts else {
            let attempts = self.without_policy(host)?;
            return Ok(Plan { route, attempts, policy: Some(no_policy()) });
        };
        let applied = applied(policy);
        let is_enforced = policy.mode == Mode::Enforce || self.requirement == TlsRequirement::Required;
        let allows = policy.allows(host);
        if !allows {
            self.note(&applied, TlsFault::ValidationFailure, host, "the policy does not name the host");
        }
        match (allows, is_enforced) {
            (true, true) => Ok(Plan { route, attempts: vec![VERIFIED], policy: Some(applied) }),
            (true, false) => {
                let attempts = [vec![VERIFIED], at_worst].concat();
                Ok(Plan { route, attempts, policy: Some(applied) })
            }
            (false, false) => Ok(Plan { route, attempts: at_worst, policy: None }),
            // RFC 8461 §4.2, §5: no mail, and the message waits for another policy.
            (false, true) => {
                let words = format!("{host} is not listed in the MTA-STS policy of {}", self.domain);
                Err(Failure::temporary("4.7.5", words))
            }
        }
    }

    fn without_policy(&self, host: &str) -> Result<Vec<Security>, Failure> {
        if self.requirement != TlsRequirement::Required {
            return Ok(vec![OPPORTUNISTIC, CLEAR]);
        }
        // RFC 8689 §4.2.1: the name of the host must be proven, too.
        if self.hosts_are_secure {
            return Ok(vec![VERIFIED]);
        }
        let words = format!(
            "REQUIRETLS: nothing proves that {host} is a host of {}, which has neither DNSSEC nor an MTA-STS policy",
            self.domain
        );
        Err(Failure::permanent("5.7.10", words))
    }

    /// The requirement of DANE for a host, if there is one.
    async fn dane(&self, host: &str) -> Result<Option<(Security, AppliedPolicy)>, Failure> {
        let Some(validated) = self.dns.validated.as_ref().filter(|_| self.hosts_are_secure) else {
            return Ok(None);
        };
        let mut policy =
            AppliedPolicy { kind: PolicyKind::Tlsa, strings: Vec::new(), hosts: vec![host.to_owned()] };
        let found = match validated.tlsa(host, self.dns.port).await {
            Ok(found) => found,
            Err(why) => {
                // RFC 7672 §2.1.3: a host whose records are withheld is skipped.
                self.note(&policy, TlsFault::DnssecInvalid, host, "");
                return Err(Failure::temporary("4.7.5", format!("the TLSA records of {host}: {why}")));
            }
        };
        let Some((base, records)) = found else { return Ok(None) };
        policy.strings = records.iter().map(crate::dane::Tlsa::text).collect();
        let records: Vec<_> = records.into_iter().filter(crate::dane::Tlsa::is_usable).collect();
        if records.is_empty() {
            return Ok(Some((Security::Encrypted, policy)));
        }
        let names = vec![base, host.to_owned(), self.domain.to_owned()];
        Ok(Some((Security::Dane(Arc::new(Dane { records, names })), policy)))
    }

    fn note_fault(&self, fault: Fault) {
        // RFC 8460 §4.3.2.2. The exact cause is in our log.
        let fault = match fault {
            Fault::Fetch(_) => TlsFault::StsPolicyFetchError,
            Fault::Invalid(_) => TlsFault::StsPolicyInvalid,
            Fault::Certificate(_) => TlsFault::StsWebpkiInvalid,
        };
        let policy = AppliedPolicy { kind: PolicyKind::Sts, strings: Vec::new(), hosts: Vec::new() };
        self.note(&policy, fault, "", "");
    }

    fn note(&self, policy: &AppliedPolicy, fault: TlsFault, host: &str, reason: &'static str) {
        if let Some(reports) = self.reports {
            let failure = TlsFailure { fault, host: host.to_owned(), address: None, reason };
            reports.failure(self.domain, policy, failure);
        }
    }
}

fn applied(policy: &Policy) -> AppliedPolicy {
    AppliedPolicy { kind: PolicyKind::Sts, strings: policy.lines(), hosts: policy.mx.clone() }
}

fn no_policy() -> AppliedPolicy {
    AppliedPolicy { kind: PolicyKind::NoPolicyFound, strings: Vec::new(), hosts: Vec::new() }
}
