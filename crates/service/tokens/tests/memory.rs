//! Memory of what is remembered of answers about tokens, counted by an allocator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use posthaste_directory::TokenCheck;
use posthaste_mail_model::Secret;
use posthaste_testkit::{CountingAllocator, HttpServer};
use posthaste_tokens::claims::RequiredClaims;
use posthaste_tokens::http::Http;
use posthaste_tokens::introspection::Introspection;
use posthaste_tokens::{Judge, SessionEnd, Tokens};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Tokens that are checked. Their answers together have over 10 MiB.
const TOKENS: usize = 200;
/// Bytes that may be kept: names in their table, the requests that the test's server keeps, and its
/// last answer.
const KEPT_MAX: usize = 1 << 20;

#[tokio::test]
async fn little_is_remembered_of_a_long_answer() {
    let roles = vec!["\"r\""; 15_000].join(",");
    let name = format!("{}@example.org", "x".repeat(128));
    let answer = format!(r#"{{"active":true,"email":"{name}","roles":[{roles}]}}"#);
    assert!(answer.len() > 55 << 10);
    let server = HttpServer::start(move |_| (200, answer.clone()));
    let http = Arc::new(Http::new(None, Duration::from_secs(30)).unwrap());
    let url = server.url("/introspect").parse().unwrap();
    let secret = Secret::new(String::new());
    let asking = Introspection::new(url, http, ("", &secret), Duration::from_secs(3600));
    let wanted = RequiredClaims {
        issuer: String::new(),
        audiences: Vec::new(),
        scope: String::new(),
        claim: "email".into(),
        leeway: Duration::ZERO,
    };
    let tokens = Tokens::new(Judge::Server(asking), wanted, "example.org".into(), SessionEnd::WithToken);
    let check = async |n: usize| tokens.check(&Secret::new(format!("token-{n}"))).await.unwrap().name;
    assert_eq!(check(0).await, name);
    let before = COUNTING.held();
    for n in 1..TOKENS {
        assert_eq!(check(n).await, name);
    }
    let kept = COUNTING.held().saturating_sub(before);
    assert!(kept < KEPT_MAX, "{kept}");
    // All of them are remembered.
    for n in 0..TOKENS {
        assert_eq!(check(n).await, name);
    }
    assert_eq!(server.requests().len(), TOKENS);
}
