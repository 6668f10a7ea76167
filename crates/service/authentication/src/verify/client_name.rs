//! The client's name in DNS, for scripts.

use std::net::IpAddr;
use std::time::Duration;

use mail_auth::{IprevOutput, IprevResult, MessageAuthenticator, Parameters};
use tokio::time::timeout;

/// The name by which iprev passes. A result has all names of the address. One of the first two
/// resolves back to it.
pub(super) async fn verified_name(
    dns: &MessageAuthenticator,
    iprev: &IprevOutput,
    address: IpAddr,
    within: Duration,
) -> Option<String> {
    let names = iprev.ptr.as_deref().filter(|_| iprev.result == IprevResult::Pass)?;
    let plain = |name: &str| Some(name.trim_end_matches('.').to_ascii_lowercase());
    match names {
        [] => None,
        [only] => plain(only),
        [first, second, ..] => {
            let params = Parameters::from(address);
            let look_up = async {
                match address {
                    IpAddr::V4(v4) => {
                        let found = dns.ipv4_lookup(first, params.cache_ipv4).await;
                        found.is_ok_and(|found| found.rrset.contains(&v4))
                    }
                    IpAddr::V6(v6) => {
                        let found = dns.ipv6_lookup(first, params.cache_ipv6).await;
                        found.is_ok_and(|found| found.rrset.contains(&v6))
                    }
                }
            };
            // Not known in time: no name, rather than the wrong one.
            let leads_back = timeout(within, look_up).await.ok()?;
            plain(if leads_back { first } else { second })
        }
    }
}
