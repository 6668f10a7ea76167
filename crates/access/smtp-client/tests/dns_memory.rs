//! Memory of answers of DNS, counted by an allocator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_smtp_client::{DNS_BYTES_MAX, Dns};
use posthaste_testkit::{CountingAllocator, DnsRecord, DnsServer};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Names that are looked up. Their answers together would take more than the bound.
const NAMES: usize = 50;

/// A stranger's name server has an answer of almost 64 KiB for each of its names: 4,000 texts of
/// three octets.
#[tokio::test]
async fn answers_of_a_strangers_name_server_are_not_kept() {
    let text = |n: usize| ("*.evil.test", DnsRecord::Txt(format!("{n:03x}")));
    let server = DnsServer::start((0..4_000).map(text));
    let dns = Dns::new(&[server.address()], 25).unwrap();
    let before = COUNTING.held();
    for n in 0..NAMES {
        let found = dns.resolver().txt_lookup(format!("{n}.evil.test.")).await.unwrap();
        assert_eq!(found.answers().len(), 4_000);
    }
    let kept = COUNTING.held().saturating_sub(before) as u64;
    assert!(kept < DNS_BYTES_MAX, "{kept}");
}
