//! Takes any bytes as a verified message, or as a message that gets our results. Or takes them as
//! DNS records of its sender, or as the sender of a forward. For fuzz targets, and for the tests
//! below.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use mail_auth::common::parse::TxtRecordParser as _;
use mail_auth::common::verify::DomainKey;
use mail_auth::dmarc::Dmarc;
use mail_auth::spf::Spf;
use posthaste_mime_summary::is_header_bounded;
use tokio::runtime::{Builder, Runtime};

use crate::bounds::FIELD_LEN_MAX;
use crate::results;
use crate::srs::{self, SECRET_LEN, Srs};
use crate::verify::{Client, Policy, Verifier, VerifierOptions};

const HOST: &str = "mx.example";
const FIELD: &str = "Authentication-Results: mx.example; spf=none\r\n";

/// A message: our field is in it once, and the fields that it brought in our name are removed.
pub fn message(data: &[u8]) {
    // A message has our trace fields in front, so it begins with no continued line.
    if data.starts_with(b" ") || data.starts_with(b"\t") {
        return;
    }
    let made = results::with_results(&Bytes::copy_from_slice(data), FIELD, HOST);
    assert!(made.len() <= data.len() + FIELD.len());
    assert_eq!(results::own(&made, HOST).map(str::trim), Some("mx.example; spf=none"));
    let again = results::with_results(&made, FIELD, HOST);
    assert_eq!(again, made, "the field that was put there is the only one");
    let _ = srs::may_align(data, "a.example.org");
}

/// A message that is verified while no name server answers: its results are one field within its
/// bound.
pub fn verified(data: &[u8]) {
    static OFFLINE: OnceLock<(Runtime, Verifier)> = OnceLock::new();
    let (runtime, verifier) = OFFLINE.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let config = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = runtime.block_on(async { builder.build() }).expect("a resolver can be made");
        let within = Duration::from_millis(20);
        let options = VerifierOptions { host: HOST.to_owned(), policy: Policy::Honour, within };
        (runtime, Verifier::new(resolver, options))
    });
    let address = IpAddr::from([192, 0, 2, 1]);
    let client = Client { address, helo: "a.example".to_owned(), from: "x@a.example".to_owned() };
    if !is_header_bounded(data) {
        return;
    }
    let verdict = runtime.block_on(verifier.verify_here(&client, data));
    let field = verdict.field.strip_suffix("\r\n").expect("a field has an end");
    assert!(field.len() <= FIELD_LEN_MAX, "{} octets of results", field.len());
    assert!(field.split("\r\n").skip(1).all(|line| line.starts_with('\t')), "{field:?}");
    assert!(!field.replace("\r\n", "").contains(['\r', '\n']), "{field:?}");
}

/// The answers of an untrusted name server about a domain: a policy of SPF, a key of DKIM, a
/// policy of DMARC. The crate that reads them is not ours; what is read decides about mail here.
pub fn records(data: &[u8]) {
    let Some((&first, record)) = data.split_first() else { return };
    match first % 3 {
        0 => drop(Spf::parse(record)),
        1 => drop(DomainKey::parse(record)),
        _ => drop(Dmarc::parse(record)),
    }
}

/// An address: a rewritten address is found again, and no other is accepted.
pub fn sender(data: &[u8]) {
    let Ok(address) = std::str::from_utf8(data) else { return };
    let srs = Srs::new(&[7; SECRET_LEN]);
    let now = 1_795_435_200;
    let _ = srs::is_rewritten(address);
    if let Some(found) = srs.original(address, now) {
        assert!(srs::is_rewritten(address), "{address:?} is {found:?}");
    }
    if let Some(rewritten) = srs.rewrite(address, "ours.example", now) {
        assert!(rewritten.ends_with("@ours.example") && srs::is_rewritten(&rewritten));
        assert!(srs.original(&rewritten, now).is_some(), "{address:?} became {rewritten:?}");
        assert_eq!(Srs::new(&[8; SECRET_LEN]).original(&rewritten, now), None);
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_message_has_our_results_once() {
        fuzz_seeds("results", 50_000, message);
    }

    #[test]
    fn any_message_can_be_verified() {
        fuzz_seeds("verified", 500, verified);
    }

    #[test]
    fn any_record_is_read() {
        fuzz_seeds("dns_records", 50_000, records);
    }

    #[test]
    fn a_sender_is_found_again() {
        fuzz_seeds("srs", 50_000, sender);
    }
}
