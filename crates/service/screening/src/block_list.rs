//! Lists of addresses that send junk, queried over DNS (RFC 5782).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;
use posthaste_net::on_dns_thread;
use tokio::task::JoinSet;

use crate::verdict::{Refusal, Standing};

/// Characters of a list's reason that are passed on.
const REASON_MAX: usize = 200;

/// Answers by which lists say that a query is not answered (Spamhaus: a typing error, a public
/// resolver, too many queries). No list has an address for these.
const ERRORS: [u8; 2] = [127, 255];

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockList {
    /// The domain under which it answers, such as `zen.spamhaus.org`.
    pub zone: String,
    /// Answers that count; empty: all within 127.0.0.0/8.
    pub answers: Vec<Ipv4Addr>,
    /// Whether mail is refused, or goes to the junk folder.
    pub refuses: bool,
}

/// The name to request: the octets, or the nibbles of IPv6, in reverse before the zone (RFC 5782
/// §2.1, §2.4).
pub fn query_name(address: IpAddr, zone: &str) -> String {
    let zone = zone.trim_end_matches('.');
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.{zone}.")
        }
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            let nibbles: String = (0..32).map(|at| format!("{:x}.", bits >> (4 * at) & 0xf)).collect();
            format!("{nibbles}{zone}.")
        }
    }
}

/// The answer of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    NotListed,
    Listed { reason: String },
}

/// Queries all lists at once. A list that does not answer in time counts as one without the
/// address.
pub(crate) async fn query(
    resolver: &TokioResolver,
    lists: &[BlockList],
    address: IpAddr,
    within: Duration,
) -> Standing {
    let mut questions = JoinSet::new();
    let session = posthaste_metrics::current();
    for (at, list) in lists.iter().enumerate() {
        let (resolver, list) = (resolver.clone(), list.clone());
        let question = on_dns_thread(async move { (at, one(&resolver, &list, address).await) });
        questions.spawn(session.metered(question));
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    let all = async {
        while let Some(answer) = questions.join_next().await {
            if let Ok((at, Answer::Listed { reason })) = answer {
                found.push((at, reason));
            }
        }
    };
    if tokio::time::timeout(within, all).await.is_err() {
        tracing::warn!(client = %address, ?within, "block lists took too long");
    }
    found.sort_unstable_by_key(|(at, _)| (!refuses(lists, *at), *at));
    let Some((at, reason)) = found.into_iter().next() else { return Standing::Good };
    match lists.get(at) {
        Some(list) if list.refuses => {
            Standing::Refused(Refusal::Listed { address, zone: list.zone.clone(), reason })
        }
        _ => Standing::Junk,
    }
}

fn refuses(lists: &[BlockList], at: usize) -> bool {
    lists.get(at).is_some_and(|list| list.refuses)
}

async fn one(resolver: &TokioResolver, list: &BlockList, address: IpAddr) -> Answer {
    let name = query_name(address, &list.zone);
    let found = match resolver.ipv4_lookup(name.as_str()).await {
        Ok(found) => found,
        Err(error) if error.is_no_records_found() => return Answer::NotListed,
        Err(error) => {
            tracing::info!(zone = list.zone, client = %address, %error, "a block list did not answer");
            return Answer::NotListed;
        }
    };
    let codes = found.answers().iter().filter_map(|record| match record.data {
        RData::A(code) => Some(code.0),
        _ => None,
    });
    let codes: Vec<Ipv4Addr> = codes.collect();
    if !codes.iter().any(|code| counts(list, *code)) {
        return Answer::NotListed;
    }
    Answer::Listed { reason: reason(resolver, &name).await }
}

/// Whether an answer says that the address is listed.
fn counts(list: &BlockList, code: Ipv4Addr) -> bool {
    if !code.is_loopback() || code.octets().starts_with(&ERRORS) {
        // RFC 5782 §2.1 and §5: a resolver that makes up answers, or a list that was given up.
        let zone = list.zone.as_str();
        tracing::warn!(zone, answer = %code, "a block list sent an answer that is not a listing");
        return false;
    }
    list.answers.is_empty() || list.answers.contains(&code)
}

/// The text of the list about the address (RFC 5782 §2.1), in printable ASCII.
async fn reason(resolver: &TokioResolver, name: &str) -> String {
    let Ok(found) = resolver.txt_lookup(name).await else { return String::new() };
    let texts = found.answers().iter().filter_map(|record| match &record.data {
        RData::TXT(text) => Some(text.txt_data.concat()),
        _ => None,
    });
    let text = texts.map(|text| String::from_utf8_lossy(&text).into_owned()).next().unwrap_or_default();
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(REASON_MAX).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_smtp_client::Dns;
    use posthaste_testkit::{DnsRecord, DnsServer};

    use super::*;

    fn list(zone: &str, refuses: bool, answers: &[[u8; 4]]) -> BlockList {
        let answers = answers.iter().map(|octets| Ipv4Addr::from(*octets)).collect();
        BlockList { zone: zone.to_owned(), answers, refuses }
    }

    #[test]
    fn names_are_those_of_rfc_5782() {
        // §2.1
        let v4 = query_name("192.0.2.99".parse().unwrap(), "bad.example.com");
        assert_eq!(v4, "99.2.0.192.bad.example.com.");
        // §2.4
        let v6 = query_name("2001:db8:1:2:3:4:567:89ab".parse().unwrap(), "ugly.example.com.");
        assert_eq!(v6, "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2.ugly.example.com.");
    }

    /// This runtime has no sockets: a look-up on it panics.
    #[test]
    fn lists_are_not_asked_on_the_thread_of_the_session() {
        let server = DnsServer::start([("1.2.0.192.bad.test", DnsRecord::A([127, 0, 0, 2]))]);
        let resolver = Dns::new(&[server.address()], 25).unwrap().resolver().clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (lists, address) = ([list("bad.test", true, &[])], Ipv4Addr::new(192, 0, 2, 1).into());
        let standing = runtime.block_on(query(&resolver, &lists, address, Duration::from_secs(20)));
        assert!(matches!(standing, Standing::Refused(_)), "{standing:?}");
    }

    #[tokio::test]
    async fn a_list_refuses_or_has_mail_put_into_junk_and_errors_do_neither() {
        let a = |last: [u8; 4]| DnsRecord::A(last);
        let server = DnsServer::start([
            ("1.2.0.192.bad.test", a([127, 0, 0, 2])),
            ("1.2.0.192.bad.test", DnsRecord::Txt("See http://bad.test/\u{7}1".into())),
            ("2.2.0.192.bad.test", a([127, 0, 0, 10])),
            ("3.2.0.192.bad.test", a([127, 255, 255, 254])),
            ("4.2.0.192.bad.test", a([198, 51, 100, 1])),
            ("1.2.0.192.dull.test", a([127, 0, 0, 2])),
            ("2.2.0.192.dull.test", a([127, 0, 0, 2])),
        ]);
        let resolver = Dns::new(&[server.address()], 25).unwrap().resolver().clone();
        let lists = [list("dull.test", false, &[]), list("bad.test", true, &[[127, 0, 0, 2]])];
        let standing = |last: u8| {
            let (resolver, lists) = (resolver.clone(), &lists);
            async move {
                query(&resolver, lists, Ipv4Addr::new(192, 0, 2, last).into(), Duration::from_secs(20)).await
            }
        };
        let Standing::Refused(refusal) = standing(1).await else { panic!("it is on both lists") };
        assert!(refusal.is_permanent());
        assert_eq!(refusal.to_string(), "192.0.2.1 is on the list bad.test: See http://bad.test/?1");
        // Another answer than the one that counts, and the list that does not refuse.
        assert_eq!(standing(2).await, Standing::Junk);
        // An error of the list, an answer of no list, and no answer.
        for last in [3, 4, 5] {
            assert_eq!(standing(last).await, Standing::Good, "192.0.2.{last}");
        }
    }
}
