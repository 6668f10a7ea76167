//! Tests of [`super`]: SPF, DKIM, ARC and DMARC of messages, against a name server of their own.

use posthaste_net::{ByteBudget, Holder, given_to_compute_threads};
use posthaste_store::MemoryEngine;
use posthaste_testkit::{DnsRecord, DnsServer};

use super::*;
use crate::keys::{DomainKey, DomainKeys, KeyState};
use crate::{Origin, Signer};

const TRACE: &str = "Return-Path: <x@sender.test>\r\nReceived: from a by mx.test; now\r\n";

/// A verifier that queries a name server of its own.
fn verifier(dns: &DnsServer, policy: Policy) -> Verifier {
    verifier_within(dns, policy, Duration::from_secs(20))
}

fn verifier_within(dns: &DnsServer, policy: Policy, within: Duration) -> Verifier {
    let options = VerifierOptions { host: "mx.test".to_owned(), policy, within };
    Verifier::new(dns.resolver(), options)
}

fn name_server() -> DnsServer {
    let key = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    DnsServer::start([("s._domainkey.sender.test", DnsRecord::Txt(key.to_owned()))])
}

fn client() -> Client {
    let address = "192.0.2.1".parse().unwrap();
    Client { address, helo: "a.sender.test".to_owned(), from: "x@sender.test".to_owned() }
}

async fn verify(verifier: &Verifier, header: &str) -> Verified {
    let message = Bytes::from(format!("{TRACE}{header}\r\nHi\r\n"));
    let verified = verifier.verify(&client(), &message, TRACE.len()).await.unwrap();
    let text = String::from_utf8_lossy(&verified.message);
    let field = &verified.verdict.field;
    assert!(field.len() <= FIELD_LEN_MAX, "{} octets of results", field.len());
    let rest = format!("{}{header}\r\nHi\r\n", &TRACE[TRACE.find("Received").unwrap()..]);
    assert!(text.starts_with(&TRACE[..TRACE.find("Received").unwrap()]) && text.ends_with(&rest));
    verified
}

/// A signature whose body hash is right, so that the covered fields are looked for.
fn signature(names: &str) -> String {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(b"Hi\r\n");
    use base64::Engine as _;
    let hash = base64::engine::general_purpose::STANDARD.encode(hash.finish());
    format!(
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=sender.test; s=s;\r\n h={names};\r\n \
         bh={hash}; b={}\r\n",
        "A".repeat(86) + "=="
    )
}

#[tokio::test]
async fn a_signature_of_too_many_fields_is_not_compared_with_the_header() {
    let dns = name_server();
    let verifier = verifier(&dns, Policy::Honour);
    // The largest number of different names in a header, and the same number of fields to compare
    // them with.
    let names: Vec<String> = (0..20_000).map(|name| format!("x{name}")).collect();
    let header = signature(&names.join(":")) + &"y:\r\n".repeat(9_000);
    let verified = verify(&verifier, &header).await;
    let field = verified.verdict.field;
    assert!(field.contains("dkim=policy (a signature is too long)"), "{field}");
    // A signature that covers the usual fields is verified.
    let field = verify(&verifier, &signature("from:to:subject")).await.verdict.field;
    assert!(field.contains("dkim=fail") && field.contains("header.d=sender.test"), "{field}");
}

#[tokio::test]
async fn a_chain_of_too_many_fields_is_not_compared_with_the_header() {
    let dns = name_server();
    let verifier = verifier(&dns, Policy::Honour);
    let names: Vec<String> = (0..20_000).map(|name| format!("x{name}")).collect();
    let signature =
        signature(&names.join(":")).replace("DKIM-Signature: v=1;", "ARC-Message-Signature: i=1;");
    let header = format!(
        "ARC-Seal: i=1; a=ed25519-sha256; cv=none; d=sender.test; s=s; b=AAAA\r\n{signature}\
         ARC-Authentication-Results: i=1; a.test; spf=pass\r\n"
    );
    let field = verify(&verifier, &header).await.verdict.field;
    assert!(field.contains("arc=fail (a signature is too long)"), "{field}");
}

#[tokio::test]
async fn the_results_of_a_message_have_a_bound() {
    let dns = name_server();
    let verifier = verifier(&dns, Policy::Honour);
    let long = "d".repeat(100_000);
    for header in [
        "DKIM-Signature: v=1; a=none\r\n".repeat(9_000),
        signature("from").replace("d=sender.test", &format!("d={long}")).repeat(5),
        signature("from").replace("s=s;", &format!("s={long};")).repeat(5),
        signature("from").replace("s=s;", &format!("s=s; i={long}@sender.test;")).repeat(5),
        signature("from").replace("d=sender.test", &format!("d={}", "d".repeat(253))).repeat(500),
        format!("From: {}\r\n", "a@b,\r\n ".repeat(100_000)),
        format!("From: x@{long}\r\n"),
        format!("From: {}\r\n", "x@\u{e9}\u{e9}\u{e9}, ".repeat(50_000)),
        "ARC-Seal: i=x\r\n".repeat(9_000),
    ] {
        // The assertions are there.
        verify(&verifier, &header).await;
    }
}

#[tokio::test]
async fn a_header_over_the_bounds_is_not_read() {
    let dns = name_server();
    let header = "a\r\n".repeat(posthaste_mime_summary::HEADER_FIELDS_MAX + 1);
    for (policy, action) in [(Policy::Honour, Action::Quarantine), (Policy::Report, Action::Deliver)] {
        let verdict = verify(&verifier(&dns, policy), &header).await.verdict;
        assert!(verdict.field.contains("dkim=policy (the header is too large)"), "{}", verdict.field);
        assert_eq!(verdict.action, action);
    }
}

#[tokio::test]
async fn a_message_waits_for_memory_and_not_for_ever() {
    let dns = name_server();
    let budget = ByteBudget::new(1 << 20).with_share_of_at_least(usize::MAX);
    let verifications = Verifications::new().with_memory(budget.clone(), 64 << 10);
    let mut verifier = verifier(&dns, Policy::Honour).with_verifications(verifications);
    verifier.thread_within = Duration::ZERO;
    let held = budget.begin(Holder::Account([1; 16]));
    held.grow_to(1 << 20).unwrap();
    held.complete();
    let message = Bytes::from(format!("{TRACE}From: x@sender.test\r\n\r\nHi\r\n"));
    assert_eq!(verifier.verify(&client(), &message, TRACE.len()).await.err(), Some(Busy));
    drop(held);
    let verified = verifier.verify(&client(), &message, TRACE.len()).await.unwrap();
    assert_eq!(budget.available(), (1 << 20) - verified.message.len(), "the copy alone is reserved");
    drop(verified);
    assert_eq!(budget.available(), 1 << 20);
}

/// A look at each line of 1 MiB took 4 ms. The verification itself is other work of such a thread.
#[tokio::test]
async fn a_long_header_is_looked_at_on_another_thread() {
    let dns = name_server();
    let verifier = verifier(&dns, Policy::Honour);
    for (lines, looks) in [(10, 0), (30_000, 1)] {
        let message = Bytes::from(format!("A: b\r\n{}\r\n", " x\r\n".repeat(lines)));
        let given = given_to_compute_threads();
        verifier.verify(&client(), &message, 0).await.unwrap();
        assert_eq!(given_to_compute_threads() - given, looks + 1, "{lines} lines");
    }
}

/// A bank with the policy `reject`, and a stranger who writes mail in its name.
fn bank() -> DnsServer {
    let txt = |text: &str| DnsRecord::Txt(text.to_owned());
    DnsServer::start([
        ("_dmarc.bank.test", txt("v=DMARC1; p=reject")),
        ("bank.test", txt("v=spf1 -all")),
        ("evil.test", txt("v=spf1 include:a.evil.test -all")),
        ("s._domainkey.evil.test", txt("v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")),
    ])
}

/// The action on a message in the bank's name from a sender, with signatures of these domains and
/// selectors.
async fn forged(verifier: &Verifier, from: &str, signatures: &[(&str, &str)]) -> (Action, String) {
    let mut header = String::from("From: ceo@bank.test\r\n");
    for (domain, selector) in signatures {
        let one = signature("from");
        header += &one.replace("d=sender.test; s=s;", &format!("d={domain}; s={selector};"));
    }
    let message = Bytes::from(format!("{TRACE}{header}\r\nHi\r\n"));
    let client = Client { from: from.to_owned(), ..client() };
    let verdict = verifier.verify(&client, &message, TRACE.len()).await.unwrap().verdict;
    (verdict.action, verdict.field)
}

/// The policy of the domain that mail programs show is not looked up, so the mail is junk. That of
/// the author who was verified still counts.
#[tokio::test]
async fn an_author_that_mail_programs_show_beside_the_verified_one_is_not_clear() {
    let dns = bank();
    let verifier = verifier(&dns, Policy::Honour);
    for (from, action) in [
        ("=?utf-8?q?CEO <ceo@bank.test>, x?= <x@other.test>", Action::Quarantine),
        ("=?utf-8?q?CEO <ceo@bank.test>, x?=", Action::Quarantine),
        ("=?utf-8?q?ceo@bank.test x?= x@other.test", Action::Quarantine),
        ("=?utf-8?q?Bo <x@other.test>, x?= <ceo@bank.test>", Action::Reject),
        ("=?utf-8?q?Doe, Bo?= <x@other.test>", Action::Deliver),
        ("\"CEO <ceo@bank.test>\" <x@other.test>", Action::Deliver),
    ] {
        let verdict = verify(&verifier, &format!("From: {from}\r\n")).await.verdict;
        assert_eq!(verdict.action, action, "{from}: {}", verdict.field);
    }
}

/// RFC 7489 §6.6.2: a domain of somebody else that fails for now does not hold the policy back.
#[tokio::test]
async fn only_an_aligned_domain_that_fails_leaves_dmarc_open() {
    let dns = bank();
    for name in ["a.evil.test", "f._domainkey.evil.test", "k._domainkey.bank.test", "news.bank.test"] {
        dns.fail(name);
    }
    let verifier = verifier(&dns, Policy::Honour);
    let long = "s".repeat(64);
    let dotted = vec!["s".repeat(60); 4].join(".");
    for (from, signatures, action, result) in [
        ("x@bank.test", &[][..], Action::Reject, "dmarc=fail"),
        // SPF and DKIM of the stranger's own domain.
        ("x@evil.test", &[], Action::Reject, "dmarc=fail"),
        ("x@bank.test", &[("evil.test", "f")], Action::Reject, "dmarc=fail"),
        // Keys whose names DNS cannot hold.
        ("x@bank.test", &[("bank.test", long.as_str())], Action::Reject, "dmarc=fail"),
        ("x@bank.test", &[("bank.test", dotted.as_str())], Action::Reject, "dmarc=fail"),
        // The bank's own.
        ("x@evil.test", &[("bank.test", "k")], Action::Deliver, "dmarc=temperror"),
        ("x@news.bank.test", &[], Action::Deliver, "dmarc=temperror"),
    ] {
        let (found, field) = forged(&verifier, from, signatures).await;
        assert!(found == action && field.contains(result), "{from} {signatures:?}: {found:?} {field}");
    }
}

/// A sender whose own names never answer does not hold the policy back.
#[tokio::test]
async fn look_ups_that_take_too_long_do_not_pass_for_a_result() {
    let dns = bank();
    dns.mute("a.evil.test");
    dns.mute("f._domainkey.evil.test");
    let within = Duration::from_secs(4);
    for (from, signatures) in [("x@evil.test", &[][..]), ("x@bank.test", &[("evil.test", "f")])] {
        let (action, field) = forged(&verifier_within(&dns, Policy::Honour, within), from, signatures).await;
        assert_eq!(action, Action::Defer, "{field}");
        assert!(field.contains("dmarc=temperror (look-ups took too long) header.from=bank.test"), "{field}");
        let (action, _) = forged(&verifier_within(&dns, Policy::Report, within), from, signatures).await;
        assert_eq!(action, Action::Deliver);
    }
    dns.serve([("_dmarc.bank.test", DnsRecord::Txt("v=DMARC1; p=none".to_owned()))]);
    let (action, _) =
        forged(&verifier_within(&dns, Policy::Honour, within), "x@bank.test", &[("evil.test", "f")]).await;
    assert_eq!(action, Action::Deliver);
}

/// Mail with signatures of several domains is common. One whose keys cannot be looked up does not
/// keep the author's from being verified.
#[tokio::test]
async fn a_signature_of_the_author_passes_beside_those_that_take_too_long() {
    let dns = bank();
    let engine = Arc::new(MemoryEngine::new());
    let mut keys = DomainKeys::new("bank.test");
    keys.generate(KeyState::Signing, 0).unwrap();
    keys.save(&*engine).await.unwrap();
    let policy = DnsRecord::Txt("v=DMARC1; p=reject".to_owned());
    let of = |key: &DomainKey| (format!("{}._domainkey.bank.test", key.selector), DnsRecord::Txt(key.txt()));
    let records: Vec<_> = keys.keys.iter().map(of).collect();
    let records = records.iter().map(|(name, record)| (name.as_str(), record.clone()));
    dns.serve(records.chain([("_dmarc.bank.test", policy)]));
    dns.mute("f._domainkey.evil.test");
    dns.mute("g._domainkey.evil.test");
    let text = Bytes::from_static(b"From: ceo@bank.test\r\n\r\nHi\r\n");
    let origin = Origin::User { sender: "ceo@bank.test" };
    let signed = Signer::new(engine, "mail.bank.test").sign(text, origin).await.unwrap();
    let others = ["f", "g"].map(|selector| {
        signature("from").replace("d=sender.test; s=s;", &format!("d=evil.test; s={selector};"))
    });
    let message = Bytes::from([TRACE.as_bytes(), others.concat().as_bytes(), &signed].concat());
    let verifier = verifier_within(&dns, Policy::Honour, Duration::from_secs(4));
    let verdict = verifier.verify(&client(), &message, TRACE.len()).await.unwrap().verdict;
    assert_eq!(verdict.action, Action::Deliver, "{}", verdict.field);
    assert!(verdict.field.contains("dmarc=pass header.from=bank.test"), "{}", verdict.field);
    assert!(verdict.field.contains("dkim=temperror (look-ups took too long)"), "{}", verdict.field);
}

/// Reports of success go to proven senders alone.
#[tokio::test]
async fn spf_or_a_signature_of_its_domain_proves_the_sender() {
    let dns = bank();
    let engine = Arc::new(MemoryEngine::new());
    let mut keys = DomainKeys::new("bank.test");
    keys.generate(KeyState::Signing, 0).unwrap();
    keys.save(&*engine).await.unwrap();
    let of = |key: &DomainKey| (format!("{}._domainkey.bank.test", key.selector), DnsRecord::Txt(key.txt()));
    let records: Vec<_> = keys.keys.iter().map(of).collect();
    let records = records.iter().map(|(name, record)| (name.as_str(), record.clone()));
    let far = DnsRecord::Txt("v=spf1 ip4:192.0.2.1 -all".to_owned());
    dns.serve(records.chain([("far.test", far)]));
    let text = Bytes::from_static(b"From: ceo@bank.test\r\n\r\nHi\r\n");
    let origin = Origin::User { sender: "ceo@bank.test" };
    let signed = Signer::new(engine, "mail.bank.test").sign(text.clone(), origin).await.unwrap();
    let verifier = verifier(&dns, Policy::Report);
    for (from, text, is_proven) in [
        ("x@far.test", &text, true),
        ("x@bank.test", &text, false),
        ("x@bank.test", &signed, true),
        ("x@News.Bank.test", &signed, true),
        // Another domain, and one whose name only ends in the same letters.
        ("x@evil.test", &signed, false),
        ("x@notbank.test", &signed, false),
        // Nobody gets a report.
        ("", &signed, false),
    ] {
        let client = Client { from: from.to_owned(), ..client() };
        let verdict = verifier.verify(&client, text, 0).await.unwrap().verdict;
        assert_eq!(verdict.is_sender_proven, is_proven, "{from}: {}", verdict.field);
    }
}
