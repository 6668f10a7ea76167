//! Any text as a policy, as the record that names one, and as a policy that the store has. For
//! the fuzz target `sts`.

use super::policy::{MAX_AGE_MAX, PATTERNS_LEN_MAX, PATTERNS_MAX, policy_id};
use super::{CachedPolicy, Mode, Policy};

/// What a domain publishes, or a damaged store returns: what is understood is printed and parsed
/// to the same, and a policy allows the hosts of its patterns and no others.
pub fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    record(&text);
    if let Ok(policy) = Policy::parse(&text) {
        published(&policy);
    }
    if let Ok(kept) = serde_json::from_slice::<CachedPolicy>(data) {
        let printed = serde_json::to_vec(&kept).expect("texts and numbers are always JSON");
        assert_eq!(serde_json::from_slice::<CachedPolicy>(&printed).ok().as_ref(), Some(&kept));
        let _ = (kept.ends(), kept.is_old(0), kept.policy.allows("mx.example"), kept.policy.lines());
    }
}

/// Each line is a text of the DNS.
fn record(text: &str) {
    let Some(id) = policy_id(text.lines()) else { return };
    assert!((1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id:?}");
    let printed = format!("v=STSv1; id={id};");
    assert_eq!(policy_id([printed.as_str()].into_iter()), Some(id));
    // RFC 8461 §3.1: exactly one text.
    assert_eq!(policy_id(text.lines().chain([printed.as_str()])), None);
}

fn published(policy: &Policy) {
    let lines = policy.lines();
    assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])), "{lines:?}");
    for end in ["\n", "\r\n"] {
        assert_eq!(Policy::parse(&lines.join(end)).as_ref(), Ok(policy));
    }
    assert!((0..=MAX_AGE_MAX).contains(&policy.max_age) && policy.mx.len() <= PATTERNS_MAX);
    assert!(policy.patterns_len() <= PATTERNS_LEN_MAX);
    assert!(!policy.mx.is_empty() || policy.mode == Mode::None);
    for pattern in &policy.mx {
        matched(&Policy { mode: policy.mode, mx: vec![pattern.clone()], max_age: policy.max_age }, pattern);
    }
}

/// The hosts of a policy with this pattern alone (RFC 8461 §4.1).
fn matched(policy: &Policy, pattern: &str) {
    let allows = |host: String| policy.allows(&host);
    match pattern.strip_prefix("*.") {
        Some(parent) => {
            assert!(allows(format!("a.{parent}")) && allows(format!("A.{parent}.")), "{pattern}");
            assert!(!allows(format!("a.b.{parent}")) && !policy.allows(parent), "{pattern}");
        }
        None => assert!(policy.allows(pattern) && !allows(format!("a.{pattern}")), "{pattern}"),
    }
}
