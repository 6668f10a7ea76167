//! A seal for incoming mail that is forwarded to another host (ARC, RFC 8617). It signs the results
//! of our verification. So the next host can trust them although the message now comes from us.
//!
//! A chain that was not valid on arrival, or that has lost a field since, gets no further set: no
//! host would trust it (§5.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};

use crate::canonical::{self, Field};
use crate::keys::{Algorithm, KeyError};
use crate::signature::{Ready, SEALED, body_hash, covered, folded, sign_field};

/// The largest number of sets in a chain (RFC 8617 §4.2.1).
const SETS_MAX: usize = 50;
/// The fields of a set, in the order in which they are sealed (§5.1.1).
const SET: [&str; 3] = ["ARC-Authentication-Results", "ARC-Message-Signature", "ARC-Seal"];
/// Fields that are signed in addition to those of our DKIM signatures (§4.1.2).
const SIGNED: [&str; 2] = ["DKIM-Signature", "Sender"];

/// Puts a further set in front of a message, or returns it unchanged if it cannot have one.
/// `results` is the value of the field `Authentication-Results` that this server wrote when the
/// message came.
pub(crate) fn sealed(message: Bytes, ready: &Ready, results: &str, now: u64) -> Result<Bytes, KeyError> {
    // Ed25519 is not among the algorithms that hosts know for seals (§4.1.2, RFC 8301).
    let Some(key) = ready.keys.iter().find(|key| key.algorithm == Algorithm::Rsa) else { return Ok(message) };
    let message = canonical::with_line_ends(message);
    let (fields, body) = canonical::split(&message);
    let Some(chain) = chain(&fields) else { return Ok(message) };
    if chain.len() >= SETS_MAX || (!chain.is_empty() && !passed(results)) {
        return Ok(message);
    }
    let (number, domain) = (chain.len() + 1, ready.domain.as_str());
    let validity = if chain.is_empty() { "none" } else { "pass" };
    let results = format!("{}: i={number}; {}\r\n", SET[0], results.trim());
    let covered = covered(&fields, &SEALED, &SIGNED);
    let tags = [
        format!("i={number}; a={}; c=relaxed/relaxed; d={domain};", key.algorithm.name()),
        format!("s={}; t={now};", key.selector),
    ];
    let body_hash = STANDARD.encode(body_hash(body));
    let signature = sign_field(SET[1], &tags, &covered, &body_hash, domain, &key.pair)?;
    let seal = format!(
        "i={number}; a={}; t={now}; cv={validity};\r\n\td={domain}; s={};\r\n\tb=",
        key.algorithm.name(),
        key.selector
    );
    // §5.1.1: all sets in order, then this one, its `b=` empty.
    let mut text = Vec::new();
    let mut add = |field: Field<'_>, end: &[u8]| {
        canonical::relaxed_field(field, &mut text);
        text.extend_from_slice(end);
    };
    chain.into_iter().flatten().for_each(|field| add(field, b"\r\n"));
    for field in [&results, &signature] {
        if let Some(field) = canonical::split(field.as_bytes()).0.first() {
            add(*field, b"\r\n");
        }
    }
    add(Field { name: SET[2].as_bytes(), value: seal.as_bytes() }, b"");
    let seal = format!("{}: {seal}{}\r\n", SET[2], folded(&key.pair.sign(&text, domain)?));
    let mut out = BytesMut::with_capacity(seal.len() + signature.len() + results.len() + message.len());
    for part in [seal.as_bytes(), signature.as_bytes(), results.as_bytes(), &message] {
        out.extend_from_slice(part);
    }
    Ok(out.freeze())
}

/// The sets of a message in order, each with its fields in the order of [`SET`]; `None` if they do
/// not form a chain.
fn chain<'m>(fields: &[Field<'m>]) -> Option<Vec<[Field<'m>; 3]>> {
    let of_sets = fields.iter().filter(|field| SET.iter().any(|name| field.is(name)));
    // One field more than the limit is enough to refuse the chain. Each field is read once.
    let of_sets = of_sets.take(SETS_MAX * SET.len() + 1);
    let all: Vec<(Option<usize>, Field<'m>)> = of_sets.map(|field| (instance(field), *field)).collect();
    if !all.len().is_multiple_of(SET.len()) || all.len() > SETS_MAX * SET.len() {
        return None;
    }
    let one = |number: usize, name: &str| {
        let mut found = all.iter().filter(|(instance, field)| *instance == Some(number) && field.is(name));
        found.next().filter(|_| found.next().is_none()).map(|(_, field)| *field)
    };
    (1..=all.len() / SET.len())
        .map(|number| Some([one(number, SET[0])?, one(number, SET[1])?, one(number, SET[2])?]))
        .collect()
}

/// The tag `i=`. In results it is the first (§4.1.1), elsewhere any.
fn instance(field: &Field<'_>) -> Option<usize> {
    let value = std::str::from_utf8(field.value).ok()?;
    let mut tags = value.split(';').map(|tag| tag.split_once('='));
    let tags = tags.find_map(|tag| tag.filter(|(name, _)| name.trim() == "i"));
    tags?.1.trim().parse().ok()
}

/// Whether results say that the chain verified. Each method has a line of its own there, and
/// nothing that an untrusted host sends can begin a line.
fn passed(results: &str) -> bool {
    results.lines().any(|line| {
        let line = line.trim();
        line.strip_prefix("arc=pass").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ';']))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_store::MemoryEngine;

    use super::*;
    use crate::{DomainKeys, KeyState, Origin, Signer};

    const RESULTS: &str = " mail.a.test;\r\n\tspf=pass smtp.mailfrom=x@c.test";
    const MESSAGE: &str = "From: x@c.test\r\nSubject: a\r\n\r\nHi.\r\n";

    async fn seal(message: &str, results: Option<&str>) -> String {
        let engine = Arc::new(MemoryEngine::new());
        let mut keys = DomainKeys::new("a.test");
        keys.generate(KeyState::Signing, 0).unwrap();
        keys.save(&*engine).await.unwrap();
        let origin = Origin::Elsewhere { results, forwarder: "ana@a.test" };
        let out = Signer::new(engine, "mail.a.test").sign(Bytes::from(message.to_owned()), origin).await;
        String::from_utf8(out.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_chain_begins_and_goes_on_if_it_verified() {
        let once = seal(MESSAGE, Some(RESULTS)).await;
        assert!(once.starts_with("ARC-Seal: i=1; a=rsa-sha256; t=") && once.ends_with(MESSAGE), "{once}");
        assert!(once.contains("\r\nARC-Authentication-Results: i=1; mail.a.test;\r\n\tspf=pass "), "{once}");
        assert!(once.contains("cv=none;"));
        let passed = format!("{RESULTS};\r\n\tarc=pass");
        let twice = seal(&once, Some(&passed)).await;
        assert!(twice.starts_with("ARC-Seal: i=2; ") && twice.contains("cv=pass;") && twice.ends_with(&once));
        for broken in [RESULTS.to_owned(), format!("{RESULTS};\r\n\tarc=fail"), format!("{RESULTS} arc=pass")]
        {
            assert_eq!(seal(&once, Some(&broken)).await, once, "{broken}");
        }
        // A field of the chain was lost, or is there twice.
        let lost = once.replacen("ARC-Seal", "X-Seal", 1);
        assert_eq!(seal(&lost, Some(&passed)).await, lost);
        let double = once.replacen("ARC-Message-Signature: i=1", "ARC-Seal: i=1", 1);
        assert_eq!(seal(&double, Some(&passed)).await, double);
    }

    #[tokio::test]
    async fn without_results_there_is_no_seal() {
        assert_eq!(seal(MESSAGE, None).await, MESSAGE);
    }
}
