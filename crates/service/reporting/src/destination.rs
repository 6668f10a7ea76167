//! The destinations of reports about a domain: the `rua` of its records.

use std::future::Future;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;
use posthaste_net::on_dns_thread;

/// Addresses that one report goes to: RFC 7489 §6.2 requires at least two.
const ADDRESSES_MAX: usize = 4;
/// Domains above an author's in which a policy is looked up.
const PARENTS_MAX: usize = 8;
/// Records of an answer that are used. A name for reports has one.
const RECORDS_MAX: usize = 64;

/// Looks up records of DNS.
pub(crate) trait LookUp: Sync {
    /// The texts of a name, as many as are used of an answer. Empty if DNS does not answer: the
    /// report is then lost, as RFC 8460 §5.3 and RFC 7489 §7.2 leave it.
    fn texts(&self, name: &str) -> impl Future<Output = Vec<String>> + Send;
}

impl LookUp for TokioResolver {
    async fn texts(&self, name: &str) -> Vec<String> {
        let (resolver, name) = (self.clone(), name.to_owned());
        on_dns_thread(async move {
            let Ok(found) = resolver.txt_lookup(name).await else { return Vec::new() };
            let texts = found.answers().iter().take(RECORDS_MAX).filter_map(|record| match &record.data {
                RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
                _ => None,
            });
            texts.collect()
        })
        .await
    }
}

/// The addresses that reports about TLS with a domain go to (RFC 8460 §3). Empty without exactly
/// one record.
pub(crate) async fn of_tls(dns: &impl LookUp, domain: &str) -> Vec<String> {
    let texts = dns.texts(&format!("_smtp._tls.{domain}.")).await;
    one_of_version(&texts, "v=TLSRPTv1").map(addresses).unwrap_or_default()
}

/// Where a domain's policy of DMARC is published (RFC 7489 §6.6.3), and the addresses that reports
/// go to.
pub(crate) async fn of_dmarc(dns: &impl LookUp, author: &str) -> Option<(String, Vec<String>)> {
    let mut domain = author;
    for _ in 0..PARENTS_MAX {
        let texts = dns.texts(&format!("_dmarc.{domain}.")).await;
        if let Some(record) = one_of_version(&texts, "v=DMARC1") {
            let mut asked = Vec::new();
            for address in addresses(record) {
                if takes_reports(dns, domain, &address).await {
                    asked.push(address);
                }
            }
            return Some((domain.to_owned(), asked));
        }
        domain = domain.split_once('.').map(|(_, parent)| parent).filter(|parent| parent.contains('.'))?;
    }
    None
}

/// Whether an address may get reports about a domain: nobody can have them sent to somebody else
/// (RFC 7489 §7.1).
async fn takes_reports(dns: &impl LookUp, domain: &str, address: &str) -> bool {
    let Some((_, to)) = address.rsplit_once('@') else { return false };
    let (to, domain) = (to.to_ascii_lowercase(), domain.to_ascii_lowercase());
    if is_within(&to, &domain) || is_within(&domain, &to) {
        return true;
    }
    let texts = dns.texts(&format!("{domain}._report._dmarc.{to}.")).await;
    let takes = texts.iter().any(|text| text.trim_start().starts_with("v=DMARC1"));
    if !takes {
        tracing::info!(domain, address, "no report: the address has not agreed to get it");
    }
    takes
}

/// Whether a domain is another one or below it.
fn is_within(domain: &str, other: &str) -> bool {
    domain.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The only text that begins with a version.
pub(crate) fn one_of_version<'t>(texts: &'t [String], version: &str) -> Option<&'t str> {
    let mut ours = texts.iter().filter(|text| {
        text.strip_prefix(version)
            .is_some_and(|rest| matches!(rest.trim_start().chars().next(), None | Some(';')))
    });
    ours.next().filter(|_| ours.next().is_none()).map(String::as_str)
}

/// The addresses of the `mailto:` URIs of a record's `rua`. A limit on sizes (`!10m`) is skipped,
/// as are other URIs.
pub(crate) fn addresses(record: &str) -> Vec<String> {
    let tags = record.split(';').filter_map(|tag| tag.split_once('='));
    let mut rua = tags.filter(|(name, _)| name.trim() == "rua");
    let uris = rua.next().map_or("", |(_, value)| value).split(',').map(str::trim);
    uris.filter_map(address).take(ADDRESSES_MAX).collect()
}

/// The address of `mailto:ADDRESS`.
fn address(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    let rest = rest.split(['!', '?']).next()?;
    let address = percent_decoded(rest)?;
    let (local, domain) = address.rsplit_once('@')?;
    let is_plain = |c: char| c.is_ascii_graphic() && !"<>()[]\\,;:\"@".contains(c);
    let is_good = scheme.eq_ignore_ascii_case("mailto")
        && (1..=64).contains(&local.len())
        && local.chars().all(is_plain)
        && (1..=253).contains(&domain.len())
        && domain.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    is_good.then_some(address)
}

/// RFC 3986 §2.1.
fn percent_decoded(text: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        out.push(u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use posthaste_testkit::{DnsRecord, DnsServer};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_a_record() {
        let record = "v=TLSRPTv1; rua=mailto:a%21b@x.test!10m, https://x.test/r , MAILTO:c@y.test?subject=x;";
        assert_eq!(addresses(record), ["a!b@x.test", "c@y.test"]);
        for none in [
            "v=TLSRPTv1",
            "rua=",
            "rua=mailto:",
            "rua=mailto:x",
            "rua=mailto:a@x.test%0d%0aRCPT",
            "rua=mailto:<a>@x",
        ] {
            assert!(addresses(none).is_empty(), "{none}");
        }
        let many = format!("rua={}", vec!["mailto:a@x.test"; 100].join(","));
        assert_eq!(addresses(&many).len(), ADDRESSES_MAX);
    }

    /// This runtime has neither sockets nor timers: a look-up on it panics.
    #[test]
    fn a_long_answer_is_read_elsewhere_and_used_in_part() {
        let text = |n: usize| ("x.test", DnsRecord::Txt(format!("{n}")));
        let server = DnsServer::start((0..=RECORDS_MAX).map(text));
        let resolver = server.resolver();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(resolver.texts("x.test.")).len(), RECORDS_MAX);
    }

    #[test]
    fn domains_below_others() {
        assert!(is_within("x.test", "x.test") && is_within("a.x.test", "x.test"));
        assert!(!is_within("ax.test", "x.test") && !is_within("x.test", "a.x.test"));
    }

    #[test]
    fn one_record_and_no_other() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let one = texts(&["v=spf1", "v=TLSRPTv1; rua=x", "v=TLSRPTv12; y"]);
        assert_eq!(one_of_version(&one, "v=TLSRPTv1"), Some("v=TLSRPTv1; rua=x"));
        assert_eq!(one_of_version(&texts(&["v=TLSRPTv1;", "v=TLSRPTv1;"]), "v=TLSRPTv1"), None);
    }

    properties! {
        #[test]
        fn no_record_makes_an_address_that_breaks_a_line(record in "\\PC{0,100}") {
            for address in addresses(&format!("rua=mailto:{record}")) {
                prop_assert!(address.chars().all(|c| c.is_ascii_graphic() && c != '<' && c != '>'));
            }
        }
    }
}
