//! The DNS records of a domain for which this server sends and receives mail. They are printed for
//! a zone file, and compared with the answers of name servers.

use std::fmt::Write as _;

use async_recursion::async_recursion as boxed;
use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;

use crate::keys::{DomainKeys, KeyState};
use crate::sts::Published;

/// Octets of one string of a TXT record (RFC 1035 §3.3).
const STRING_LEN_MAX: usize = 255;
/// The preference of the only host.
const PREFERENCE: u16 = 10;

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// The host that takes the domain's mail.
    Mx(String),
    /// A text. `kind` is what it begins with; other texts of the name are ignored.
    Txt {
        /// For example `v=spf1`.
        kind: &'static str,
        /// All of it.
        text: String,
    },
    /// Some address of the host.
    Address,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name, without the last dot.
    pub name: String,
    /// The record's content.
    pub data: Data,
    /// The purpose of the record.
    pub purpose: &'static str,
    /// Mail fails without it.
    pub is_needed: bool,
    /// Any other content counts as missing.
    pub is_exact: bool,
}

/// The state of a record in DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is there.
    Right,
    /// The record is missing.
    Missing,
    /// There is another one: these.
    Differs(Vec<String>),
    /// DNS gives no answer: why.
    Unknown(String),
}

/// The records for keys in these states, on a server of this name, which serves a policy about TLS
/// if there is one.
pub fn records(keys: &DomainKeys, states: &[KeyState], host: &str, sts: Option<&Published>) -> Vec<Record> {
    let domain = keys.domain.as_str();
    let record =
        |name: String, data, purpose| Record { name, data, purpose, is_needed: true, is_exact: false };
    let text = |kind, text: &str| Data::Txt { kind, text: text.to_owned() };
    let mut all = vec![
        record(host.to_owned(), Data::Address, "this server"),
        record(domain.to_owned(), Data::Mx(host.to_owned()), "mail for the domain is sent here"),
        // RFC 7208 §5.4
        record(domain.to_owned(), text("v=spf1", "v=spf1 mx -all"), "SPF: only this server sends its mail"),
    ];
    if host != domain {
        // RFC 7208 §2.4: of mail without a sender, such as reports, the host's name is looked up.
        let spf = record(host.to_owned(), text("v=spf1", "v=spf1 a -all"), "SPF of reports");
        all.push(Record { is_needed: false, ..spf });
    }
    for key in keys.keys.iter().filter(|key| states.contains(&key.state)) {
        let name = format!("{}._domainkey.{domain}", key.selector);
        let dkim = record(
            name,
            Data::Txt { kind: "v=DKIM1", text: key.txt() },
            "DKIM: what signatures are verified with",
        );
        all.push(Record { is_exact: true, ..dkim });
    }
    // RFC 7489 §6.3
    let dmarc = text("v=DMARC1", "v=DMARC1; p=quarantine");
    let dmarc = record(format!("_dmarc.{domain}"), dmarc, "DMARC: what becomes of mail that fails both");
    all.push(Record { is_needed: false, ..dmarc });
    if let Some(sts) = sts {
        let id = text("v=STSv1", &format!("v=STSv1; id={};", sts.id()));
        let id = record(format!("_mta-sts.{domain}"), id, "MTA-STS: which policy about TLS counts");
        let address = record(format!("mta-sts.{domain}"), Data::Address, "where the policy is fetched");
        all.extend([id, address].map(|one| Record { is_needed: false, ..one }));
    }
    // RFC 8460 §3
    let tlsrpt = text("v=TLSRPTv1", &format!("v=TLSRPTv1; rua=mailto:postmaster@{domain}"));
    let tlsrpt = record(format!("_smtp._tls.{domain}"), tlsrpt, "where others send reports about TLS to us");
    all.push(Record { is_needed: false, ..tlsrpt });
    all
}

impl Record {
    /// A line of a zone file (RFC 1035 §5.1); a comment for a record that we cannot know.
    pub fn zone_line(&self) -> String {
        let name = &self.name;
        match &self.data {
            Data::Address => format!("; {name}. needs A and AAAA records with this server's addresses"),
            Data::Mx(host) => format!("{name}. IN MX {PREFERENCE} {host}."),
            Data::Txt { text, .. } => {
                let strings = strings(text);
                match strings.as_slice() {
                    [one] => format!("{name}. IN TXT \"{one}\""),
                    several => {
                        several.iter().fold(format!("{name}. IN TXT ("), |mut line, one| {
                            let _ = write!(line, "\n    \"{one}\"");
                            line
                        }) + " )"
                    }
                }
            }
        }
    }

    /// Its content, for a person.
    pub fn content(&self) -> String {
        match &self.data {
            Data::Address => "A or AAAA".to_owned(),
            Data::Mx(host) => format!("MX {host}"),
            Data::Txt { text, .. } => format!("TXT {text}"),
        }
    }

    /// The state of a record on the name servers.
    #[boxed]
    pub async fn check(&self, resolver: &TokioResolver) -> Finding {
        let name = format!("{}.", self.name);
        match &self.data {
            Data::Address => match resolver.lookup_ip(name).await {
                Ok(found) if found.iter().next().is_some() => Finding::Right,
                Ok(_) => Finding::Missing,
                Err(error) => unanswered(&error),
            },
            Data::Mx(host) => match resolver.mx_lookup(name).await {
                Ok(found) => {
                    let hosts = found.answers().iter().filter_map(|record| match &record.data {
                        RData::MX(mx) => Some(mx.exchange.to_ascii().trim_end_matches('.').to_owned()),
                        _ => None,
                    });
                    compared(hosts.collect(), |found| found.eq_ignore_ascii_case(host))
                }
                Err(error) => unanswered(&error),
            },
            Data::Txt { kind, text } => match resolver.txt_lookup(name).await {
                Ok(found) => {
                    let texts = found.answers().iter().filter_map(|record| match &record.data {
                        RData::TXT(txt) => Some(joined(&txt.txt_data)),
                        _ => None,
                    });
                    // A record of DKIM may leave its version out (RFC 6376 §3.6.1).
                    let ours = texts.filter(|text| self.is_exact || begins_with(text, kind));
                    compared(ours.collect(), |found| same_text(found, text))
                }
                Err(error) => unanswered(&error),
            },
        }
    }

    /// Whether mail fails with such an answer.
    pub fn fails_with(&self, finding: &Finding) -> bool {
        self.is_needed
            && match finding {
                Finding::Right => false,
                Finding::Differs(_) => self.is_exact,
                Finding::Missing | Finding::Unknown(_) => true,
            }
    }
}

/// Several records of SPF, DKIM or DMARC at one name count as none (RFC 7208 §4.5).
fn compared(found: Vec<String>, is_right: impl Fn(&str) -> bool) -> Finding {
    match found.as_slice() {
        [] => Finding::Missing,
        [one] if is_right(one) => Finding::Right,
        _ => Finding::Differs(found),
    }
}

fn unanswered(error: &NetError) -> Finding {
    match error.is_no_records_found() || error.is_nx_domain() {
        true => Finding::Missing,
        false => Finding::Unknown(error.to_string()),
    }
}

fn joined(strings: &[Box<[u8]>]) -> String {
    String::from_utf8_lossy(&strings.concat()).into_owned()
}

fn begins_with(text: &str, kind: &str) -> bool {
    text.trim_start().get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
}

/// White space between tags and within keys does not count (RFC 6376 §3.2).
fn same_text(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let text: String = text.split_whitespace().collect();
        text.trim_end_matches(';').to_owned()
    };
    plain(one) == plain(other)
}

/// A text in strings that a TXT record can hold. It has no character that would need an escape.
fn strings(text: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    while rest.len() > STRING_LEN_MAX {
        let (string, behind) = rest.split_at(STRING_LEN_MAX);
        all.push(string);
        rest = behind;
    }
    all.push(rest);
    all
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::{DnsRecord, DnsServer};

    use super::*;

    fn policy() -> Published {
        Published { mode: crate::sts::Mode::Testing, mx: vec!["mail.example.org".into()], max_age_s: 86_400 }
    }

    fn all() -> Vec<Record> {
        let mut keys = DomainKeys::new("example.org");
        keys.generate(KeyState::Signing, 0).unwrap();
        keys.generate(KeyState::Next, 0).unwrap();
        records(&keys, &[KeyState::Signing], "mail.example.org", Some(&policy()))
    }

    #[test]
    fn lines_of_a_zone_file() {
        let all = all();
        let lines: Vec<String> = all.iter().map(Record::zone_line).collect();
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[1], "example.org. IN MX 10 mail.example.org.");
        assert_eq!(lines[2], "example.org. IN TXT \"v=spf1 mx -all\"");
        assert_eq!(lines[6], "_dmarc.example.org. IN TXT \"v=DMARC1; p=quarantine\"");
        let sts = format!("_mta-sts.example.org. IN TXT \"v=STSv1; id={};\"", policy().id());
        assert_eq!(lines[7], sts);
        assert_eq!(lines[8], "; mta-sts.example.org. needs A and AAAA records with this server's addresses");
        let reports = "v=TLSRPTv1; rua=mailto:postmaster@example.org";
        assert_eq!(lines[9], format!("_smtp._tls.example.org. IN TXT \"{reports}\""));
        // The strings of the RSA key: none too long, and together the text.
        let rsa = &lines[4];
        assert!(rsa.starts_with("r19700101._domainkey.example.org. IN TXT (\n    \"v=DKIM1; k=rsa; p="));
        let strings: Vec<&str> = rsa.split('"').skip(1).step_by(2).collect();
        assert!(strings.len() == 2 && strings.iter().all(|string| string.len() <= STRING_LEN_MAX));
        assert_eq!(format!("TXT {}", strings.concat()), all[4].content());
        assert!(lines[5].contains("k=ed25519; p=") && !lines[5].contains('('));
    }

    #[tokio::test]
    async fn dns_is_compared_record_by_record() {
        let all = all();
        let Data::Txt { text: rsa, .. } = &all[4].data else { panic!() };
        let txt = |text: &str| DnsRecord::Txt(text.into());
        let server = DnsServer::start([
            ("mail.example.org", DnsRecord::A([127, 0, 0, 1])),
            ("example.org", DnsRecord::Mx(5, "mail.example.org".into())),
            ("example.org", txt("google-site-verification=1")),
            ("example.org", txt("v=spf1 mx include:other.test -all")),
            (all[4].name.as_str(), txt(&rsa.replace("; ", ";"))),
            (all[5].name.as_str(), txt("v=DKIM1; k=ed25519; p=AAAA")),
            ("_mta-sts.example.org", txt("v=STSv1; id=1;")),
        ]);
        let resolver = server.resolver();
        let mut found = Vec::new();
        for record in &all {
            let finding = record.check(&resolver).await;
            found.push((record.fails_with(&finding), finding));
        }
        let differs = |text: &str| Finding::Differs(vec![text.to_owned()]);
        assert_eq!(
            found,
            [
                (false, Finding::Right),
                (false, Finding::Right),
                (false, differs("v=spf1 mx include:other.test -all")),
                (false, Finding::Missing),
                (false, Finding::Right),
                (true, differs("v=DKIM1; k=ed25519; p=AAAA")),
                (false, Finding::Missing),
                (false, differs("v=STSv1; id=1;")),
                (false, Finding::Missing),
                (false, Finding::Missing),
            ]
        );
    }
}
